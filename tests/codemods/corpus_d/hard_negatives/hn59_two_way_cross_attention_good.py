import torch
from flash_attn import flash_attn_varlen_func


class TwoWayAttention(torch.nn.Module):
    def forward(self, points, boxes, cu_points, cu_boxes, max_points, max_boxes):
        pq, pk, pv = self.point_qkv(points).unbind(1)
        bq, bk, bv = self.box_qkv(boxes).unbind(1)
        to_points = flash_attn_varlen_func(pq, bk, bv, cu_points, cu_boxes, max_points, max_boxes)
        to_boxes = flash_attn_varlen_func(bq, pk, pv, cu_boxes, cu_points, max_boxes, max_points)
        return to_points, to_boxes
