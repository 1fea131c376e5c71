import torch


class DynamicTiler:
    def __init__(self, max_tiles, size):
        self.max_tiles = max_tiles
        self.size = size

    def __call__(self, images):
        pixel_values = []
        num_tiles = []
        for image in images:
            tiles = self.cut(image)
            if len(tiles) > 1:
                tiles.append(self.resize(image, self.size))
            pixel_values.extend(tiles)
            num_tiles.append(len(tiles))
        return {"pixel_values": torch.stack(pixel_values), "num_tiles": num_tiles}


def image_features(tower, batch):
    features = tower(batch["pixel_values"]).split(batch["num_tiles"])
    return [f.flatten(0, 1) for f in features]
