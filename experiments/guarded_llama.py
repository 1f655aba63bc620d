"""A small Llama learns new texts: what plain training, the adapters of peft and guards do to its old answers.

old logits moved = max |f(x) after − f(x) before| over the old texts; the new loss is that of the new texts.
"""

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from warnings import catch_warnings, simplefilter

import remanence as rm
from experiments.card import Card, Claim, Table, run
from remanence.errors import MissingDependency

WIDTH, LAYERS, WORDS, RANK, LENGTH = 64, 2, 96, 16, 8
OLD, NEW, SEEDS = 6, 16, 3


def _libraries() -> tuple[Any, Any, Any]:
    try:
        import peft
        import torch
        import transformers
    except ImportError as error:
        raise MissingDependency(f"{error.name} is not installed; pip install 'remanence[hf]'") from error
    transformers.logging.set_verbosity_error()
    return torch, transformers, peft


def _model(seed: int) -> Any:
    torch, transformers, _ = _libraries()
    torch.manual_seed(seed)
    config = transformers.LlamaConfig(
        vocab_size=WORDS,
        hidden_size=WIDTH,
        intermediate_size=2 * WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    return transformers.LlamaForCausalLM(config).eval()


def _with_adapter(net: Any, kind: str, old: Any) -> Any:
    _, _, peft = _libraries()
    targets = ["q_proj", "v_proj", "up_proj", "down_proj"]
    if kind == "OSF":
        return peft.get_peft_model(net, peft.OSFConfig(target_modules=targets)).eval()
    options: dict[str, Any] = {"LoRA": {}, "rsLoRA": {"use_rslora": True}, "DoRA": {"use_dora": True}}.get(kind, {})
    if kind == "CorDA-KPM":
        from peft.tuners.lora.config import CordaConfig
        from peft.tuners.lora.corda import preprocess_corda

        config = peft.LoraConfig(
            r=RANK,
            lora_alpha=RANK,
            target_modules=targets,
            init_lora_weights="corda",
            corda_config=CordaConfig(corda_method="kpm"),
        )
        preprocess_corda(net, config, run_model=lambda: [net(input_ids=text[None]) for text in old])
        return peft.get_peft_model(net, config).eval()
    config = peft.LoraConfig(r=RANK, lora_alpha=RANK, target_modules=targets, **options)
    return peft.get_peft_model(net, config).eval()


def _train(net: Any, guard: Any, new: Any, steps: int) -> float:
    torch, _, _ = _libraries()
    optimizer = torch.optim.AdamW([p for p in net.parameters() if p.requires_grad], lr=5e-3, weight_decay=0.01)
    with nullcontext() if guard is None else guard.protect(optimizer):
        for _ in range(steps):
            optimizer.zero_grad()
            net(input_ids=new, labels=new).loss.backward()
            optimizer.step()
    with torch.no_grad():
        return float(net(input_ids=new, labels=new).loss)


def _one(method: str, seed: int, steps: int) -> tuple[float, float, float]:
    """The new loss before and after, and how far the old logits moved."""
    torch, _, _ = _libraries()
    noise = torch.Generator().manual_seed(100 + seed)
    old = torch.randint(0, WORDS // 2, (OLD, LENGTH), generator=noise)
    new = torch.randint(WORDS // 2, WORDS, (NEW, LENGTH), generator=noise)
    net = _model(seed)
    kind, _, guarded = method.partition(", ")
    with torch.no_grad():
        first, before = float(net(input_ids=new, labels=new).loss), net(input_ids=old).logits.clone()
    if kind != "all weights":
        torch.manual_seed(seed)
        net = _with_adapter(net, kind, old)
    guard = None
    if guarded:
        with catch_warnings():
            simplefilter("ignore")
            guard = rm.deep.GradientProjection(net)
            guard.absorb([{"input_ids": old}])
    last = _train(net, guard, new, steps)
    with torch.no_grad():
        return first, last, float((net(input_ids=old).logits - before).abs().max())


METHODS = (
    "all weights",
    "LoRA",
    "rsLoRA",
    "DoRA",
    "OSF",
    "CorDA-KPM",
    "all weights, guarded",
    "LoRA, guarded",
    "rsLoRA, guarded",
    "DoRA, guarded",
)


def make(quick: bool, data: Path) -> Card:
    """A small Llama learns new texts under plain training, the adapters of peft, and guards."""
    torch, transformers, peft = _libraries()
    torch.set_num_threads(1)
    steps, seeds = (20, 1) if quick else (100, SEEDS)
    found = {m: [_one(m, seed, steps) for seed in range(seeds)] for m in METHODS}
    mean = {m: tuple(sum(part) / seeds for part in zip(*rows, strict=True)) for m, rows in found.items()}
    worst = {m: max(moved for _, _, moved in rows) for m, rows in found.items()}
    rows = [(m, f"{mean[m][0]:.3f}", f"{mean[m][1]:.3f}", worst[m]) for m in METHODS]
    table = Table("New texts and old answers", ("method", "new loss before", "after", "old logits moved"), rows)
    claims = [
        Claim("guarded training of all weights: old logits moved", worst["all weights, guarded"], 1e-4),
        Claim("guarded LoRA: old logits moved", worst["LoRA, guarded"], 1e-5),
        Claim(
            "new loss of guarded LoRA relative to plain LoRA's, minus 1",
            mean["LoRA, guarded"][1] / mean["LoRA"][1] - 1,
            0.02,
        ),
    ]
    return Card(
        "guarded_llama",
        "New texts for a small Llama",
        "A random Llama learns new texts with AdamW. What does that do to its logits on old texts, which are shown to "
        "the guard once and never trained on?",
        f"random tokens: {OLD} old and {NEW} new texts of {LENGTH}, {seeds} seeds",
        {
            "Model": f"LlamaForCausalLM, {LAYERS} layers of width {WIDTH}, {WORDS} words, float32",
            "Training": f"{steps} steps of AdamW at 5e-3 on all new texts; adapters of rank {RANK}",
            "Versions": f"transformers {transformers.__version__}, peft {peft.__version__}",
        },
        "the adapters of peft as they come; OSF and CorDA-KPM are made to preserve knowledge",
        [table],
        claims,
    )


if __name__ == "__main__":
    sys.exit(run("guarded_llama", make))
