import torch


def load_tiles(images, max_tiles, split, thumbnail):
    pixel_values, num_tiles = [], []
    for image in images:
        tiles = split(image, max_tiles)
        if len(tiles) > 1:
            tiles.append(thumbnail(image))
        pixel_values.extend(tiles)
        num_tiles.append(len(tiles))
    return torch.stack(pixel_values), num_tiles


def merge_tiles(features, num_tiles):
    return [part.flatten(0, 1) for part in features.split(num_tiles)]
