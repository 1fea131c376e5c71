import torch


def pack_prompts(prompts, image_token):
    tokens, image_index = [], []
    for prompt in prompts:
        t = torch.tensor(prompt["token_ids"])
        where = (t == image_token).nonzero(as_tuple=True)[0]
        tokens.append(t)
        image_index.append(where)
    return torch.cat(tokens), torch.cat(image_index)


def merge_images(embeds, image_index, features):
    return embeds.index_copy(0, image_index, features)
