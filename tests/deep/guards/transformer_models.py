"""Tiny random transformers of Hugging Face, with adapters of peft, and what they compute."""

import pytest
import torch

transformers = pytest.importorskip("transformers")
transformers.logging.set_verbosity_error()

WIDTH = 32
OLD = torch.tensor([[3, 5, 7, 2, 11, 9], [4, 4, 8, 1, 0, 6]])
NEW = torch.tensor([[33, 25, 37, 22, 31, 29], [34, 24, 38, 21, 20, 26]])
TARGETS = {"llama": ["q_proj", "v_proj"], "gpt2": ["c_attn"], "bert": ["query", "value"], "t5": ["q", "v"]}


def make(kind, seed=0):
    torch.manual_seed(seed)
    small = {"vocab_size": 40}
    if kind == "llama":
        config = transformers.LlamaConfig(
            hidden_size=WIDTH,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            **small,
        )
        return transformers.LlamaForCausalLM(config).eval()
    if kind == "gpt2":
        ends = {"bos_token_id": 0, "eos_token_id": 0}
        config = transformers.GPT2Config(n_positions=16, n_embd=WIDTH, n_layer=2, n_head=4, **small, **ends)
        return transformers.GPT2LMHeadModel(config).eval()
    if kind == "bert":
        config = transformers.BertConfig(
            hidden_size=WIDTH,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            max_position_embeddings=16,
            **small,
        )
        return transformers.BertModel(config).eval()
    config = transformers.T5Config(
        d_model=WIDTH, d_kv=8, d_ff=48, num_layers=2, num_heads=4, decoder_start_token_id=0, **small
    )
    return transformers.T5ForConditionalGeneration(config).eval()


def adapted(kind, rank=4, **options):
    """The model with fresh LoRA adapters; biases and norms stay as they are."""
    peft = pytest.importorskip("peft")
    torch.manual_seed(1)
    fan = {"fan_in_fan_out": True} if kind == "gpt2" else {}
    config = peft.LoraConfig(r=rank, lora_alpha=8, target_modules=TARGETS[kind], **fan, **options)
    return peft.get_peft_model(make(kind), config).eval()


def batch(kind, ids):
    return {"input_ids": ids} | ({"decoder_input_ids": ids[:, :4]} if kind == "t5" else {})


def outputs(kind, net, ids):
    found = net(**batch(kind, ids))
    return found.last_hidden_state if kind == "bert" else found.logits


def train(kind, net, guard, ids, steps=8, lr=1e-2):
    """Guarded (or, without a guard, plain) regression of random targets; returns the losses."""
    from contextlib import nullcontext

    optimizer = torch.optim.AdamW([p for p in net.parameters() if p.requires_grad], lr=lr)
    with torch.no_grad():
        found = outputs(kind, net, ids)
    target = found + torch.randn(found.shape, generator=torch.Generator().manual_seed(5)).to(found)
    losses = []
    with nullcontext() if guard is None else guard.protect(optimizer):
        for _ in range(steps):
            optimizer.zero_grad()
            loss = (outputs(kind, net, ids) - target).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(float(loss.detach()))
        losses.append(float((outputs(kind, net, ids) - target).square().mean().detach()))
    return losses
