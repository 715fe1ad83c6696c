"""Writes test/vectors/peft-variants/: adapters of every kind that PEFT saves and we load, on the base model
test/vectors/qwen3-tiny, with the log-probabilities that PEFT, and transformers after merging, give.

    pip install torch transformers peft safetensors
    python scripts/peft-vectors.py

Seeded; run on the CPU. Tests read the committed outputs and need no Python.
"""

import json
import random
import shutil
from pathlib import Path

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

VECTORS = Path(__file__).resolve().parent.parent / "test" / "vectors"
BASE = VECTORS / "qwen3-tiny"
OUT = VECTORS / "peft-variants"

VARIANTS = {
    "rslora-regex": (torch.float32, dict(r=3, lora_alpha=5, use_rslora=True,
                                         target_modules=r"model\.layers\.\d+\.self_attn\.(?:q|v)_proj")),
    "all-linear-f16": (torch.float16, dict(r=2, lora_alpha=7, target_modules="all-linear")),
    "paths-bf16": (torch.bfloat16, dict(r=4, lora_alpha=4, target_modules=["self_attn.o_proj", "down_proj"])),
    "gaussian-dropout": (torch.float32, dict(r=1, lora_alpha=2.5, lora_dropout=0.1, init_lora_weights="gaussian",
                                             target_modules=["gate_proj", "up_proj", "k_proj"])),
}


def base(dtype=torch.float32):
    return AutoModelForCausalLM.from_pretrained(BASE, dtype=dtype, attn_implementation="eager").eval()


def logprobs(model, ids):
    """log p(ids[i + 1] | ids[..i]) in f32."""
    with torch.no_grad():
        rows = model(input_ids=torch.tensor([ids])).logits[0].float().log_softmax(-1)[:-1]
    return rows.gather(1, torch.tensor(ids[1:])[:, None])[:, 0].tolist()


def merged(folder, dtype):
    """Merged in `dtype`, as its weights would be stored, then computed in f32."""
    return PeftModel.from_pretrained(base(dtype), folder).merge_and_unload().float()


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    draw = random.Random(11)
    torch.manual_seed(11)
    ids = [draw.randrange(2, 96) for _ in range(24)]
    results = {}
    for name, (dtype, settings) in VARIANTS.items():
        folder = OUT / name
        peft = get_peft_model(base(), LoraConfig(task_type="CAUSAL_LM", **settings)).eval()
        with torch.no_grad():
            for key, weight in peft.named_parameters():
                if "lora_" in key:
                    weight.copy_(0.3 * torch.randn_like(weight))
        peft.save_pretrained(folder)
        (folder / "README.md").unlink()
        config = json.loads((folder / "adapter_config.json").read_text())
        config["base_model_name_or_path"] = "qwen3-tiny"
        if isinstance(config["target_modules"], list):
            config["target_modules"].sort()  # a set in PEFT: its order changes from run to run
        (folder / "adapter_config.json").write_text(json.dumps(config, indent=1) + "\n")
        tensors = load_file(folder / "adapter_model.safetensors")
        save_file({k: v.to(dtype) for k, v in tensors.items()}, folder / "adapter_model.safetensors",
                  metadata={"format": "pt"})
        results[name] = {
            "adapter": logprobs(PeftModel.from_pretrained(base(), folder).eval(), ids),
            "merged": {str(d).removeprefix("torch."): logprobs(merged(folder, d), ids)
                       for d in (torch.float32, torch.bfloat16, torch.float16)},
        }
    (OUT / "vectors.json").write_text(json.dumps({"ids": ids, "base": logprobs(base(), ids), "variants": results},
                                                 indent=1) + "\n")


main()
