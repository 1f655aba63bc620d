"""Models that two processes share, how each is sharded, and inputs for every task and process."""

import torch
from torch import nn


class Words(nn.Module):
    """Embedding, norm and Linear layers whose rows do not divide by two; the head has one, so one process has none."""

    def __init__(self):
        super().__init__()
        self.words, self.first, self.norm, self.last = (
            nn.Embedding(29, 8),
            nn.Linear(8, 31),
            nn.LayerNorm(31),
            nn.Linear(31, 1),
        )

    def forward(self, i):
        return self.last(torch.tanh(self.norm(self.first(self.words(i).mean(1)))))


class Images(nn.Module):
    """Convolutions, with groups and transposed, a batch norm and a module of one parameter."""

    def __init__(self):
        super().__init__()
        self.first, self.inner = nn.Conv2d(3, 9, 3, padding=1), nn.Conv2d(9, 15, 3, padding=1, groups=3)
        self.norm, self.wider, self.bend = nn.BatchNorm2d(15), nn.ConvTranspose2d(15, 20, 2), nn.PReLU()
        self.head = nn.Linear(20, 2)

    def forward(self, x):
        h = self.norm(self.inner(torch.relu(self.first(x))))
        return self.head(self.bend(self.wider(torch.tanh(h))).mean((2, 3)))


class Sequences(nn.Module):
    """Attention of torch, with weights in one parameter and in several, and an LSTM."""

    def __init__(self):
        super().__init__()
        self.inputs = nn.Linear(6, 30)
        self.joint = nn.MultiheadAttention(30, 2, batch_first=True)
        self.split = nn.MultiheadAttention(30, 2, batch_first=True, kdim=30, vdim=6)
        self.rnn, self.head = nn.LSTM(30, 31, batch_first=True), nn.Linear(31, 2)

    def forward(self, x):
        h = self.inputs(x)
        h = h + self.joint(h, h, h, need_weights=False)[0]
        h = h + self.split(h, h, x, need_weights=False)[0]
        return self.head(self.rnn(h)[0].mean(1))


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    sizes = {"vocab_size": 29, "n_positions": 8, "n_embd": 24, "n_layer": 2, "n_head": 2}
    return GPT2LMHeadModel(GPT2Config(**sizes, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, use_cache=False))


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 24, "intermediate_size": 35, "num_attention_heads": 2, "num_key_value_heads": 1}
    return LlamaForCausalLM(LlamaConfig(vocab_size=29, num_hidden_layers=2, use_cache=False, **sizes))


def lora():
    from peft import LoraConfig, get_peft_model

    return get_peft_model(llama(), LoraConfig(r=5, target_modules=["q_proj", "down_proj"]))


def words(task, rank):
    return torch.arange(6 * task + 3 * rank, 6 * task + 3 * rank + 3)[None] % 29


def numbers(*shape):
    def draw(task, rank):
        return torch.randn(1, *shape, generator=torch.Generator().manual_seed(10 * task + rank), dtype=torch.float64)

    return draw


INPUTS = {Images: numbers(3, 2, 2), Sequences: numbers(3, 6)}


def make(kind):
    torch.manual_seed(0)
    return kind().double().eval()


def shard(model, mesh, **options):
    """Shard the first layer or the blocks of a model, then the rest."""
    from torch.distributed.fsdp import fully_shard

    blocks = [m for m in model.modules() if type(m).__name__ in ("GPT2Block", "LlamaDecoderLayer")]
    for module in blocks or list(model.children())[:2]:
        fully_shard(module, mesh=mesh, **options)
    return fully_shard(model, mesh=mesh, **options)


def outputs(model, x):
    found = model(x)
    return getattr(found, "logits", found)
