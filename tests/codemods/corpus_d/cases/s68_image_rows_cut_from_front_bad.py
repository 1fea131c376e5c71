import torch


class SingleStreamStack(torch.nn.Module):
    def forward(self, hidden_states, encoder_hidden_states, temb, rotary):
        x = torch.cat([encoder_hidden_states, hidden_states], dim=1)
        for block in self.blocks:
            x = block(x, temb=temb, image_rotary_emb=rotary)
        x = x[:, : hidden_states.shape[1]]
        x = self.norm_out(x, temb)
        return self.proj_out(x)
