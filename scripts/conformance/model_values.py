"""What PyTorch, transformers and PEFT compute for models.ts.

Reads the file given as argument, a JSON list of jobs {folder, adapter, rslora, samples, temperature,
entropyCoef, adamw, out}, and writes for each `out`, a safetensors file:
    logprobs.<i>     log_softmax(logits / T) of every position of sample i [length, vocab]
    entropies.<i>    [length]
    gradient.<name>  of the objective, for every LoRA tensor
    adamw.<name>     after the steps of torch.optim.AdamW that minimise it
The objective is the sum over all sampled tokens of coef * logprob + entropyCoef * entropy.
"""

import json
import sys
from pathlib import Path

import torch
from peft import PeftConfig, PeftModel
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM
from transformers.utils import logging

logging.set_verbosity_error()
logging.disable_progress_bar()
torch.set_num_threads(1)


def load(job):
    base = AutoModelForCausalLM.from_pretrained(job["folder"], dtype=torch.float32, attn_implementation="eager")
    config = PeftConfig.from_pretrained(job["adapter"])
    config.use_rslora, config.inference_mode = job["rslora"], False
    return PeftModel.from_pretrained(base, job["adapter"], config=config, is_trainable=True).eval()


def rows(model, ids, temperature):
    return (model(input_ids=torch.tensor([ids])).logits[0] / temperature).log_softmax(-1)


def objective(model, job):
    total = 0.0
    for sample in job["samples"]:
        ids, start = sample["ids"], sample["promptLength"]
        kept = rows(model, ids, job["temperature"])[start - 1 : -1]
        logprobs = kept.gather(1, torch.tensor(ids[start:])[:, None])[:, 0]
        entropy = -(kept.exp() * kept).sum(-1)
        total = total + (torch.tensor(sample["coef"]) * logprobs).sum() + job["entropyCoef"] * entropy.sum()
    return total


def run(job):
    model = load(job)
    lora = {n.replace(".default.", "."): p for n, p in model.named_parameters() if "lora_" in n}
    made = {}
    with torch.no_grad():
        for i, sample in enumerate(job["samples"]):
            values = rows(model, sample["ids"], job["temperature"])
            made[f"logprobs.{i}"] = values
            made[f"entropies.{i}"] = -(values.exp() * values).sum(-1)
    objective(model, job).backward()
    made |= {f"gradient.{name}": p.grad.clone() for name, p in lora.items()}
    settings = job["adamw"]
    optimizer = torch.optim.AdamW(
        lora.values(), lr=settings["learningRate"], betas=tuple(settings["betas"]), eps=settings["eps"],
        weight_decay=settings["weightDecay"],
    )
    for _ in range(settings["steps"]):
        optimizer.zero_grad()
        objective(model, job).backward()
        optimizer.step()
    made |= {f"adamw.{name}": p for name, p in lora.items()}
    save_file({name: t.detach().contiguous().clone() for name, t in made.items()}, job["out"])


for job in json.loads(Path(sys.argv[1]).read_text(encoding="utf8")):
    run(job)
