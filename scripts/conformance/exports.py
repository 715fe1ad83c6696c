"""What PEFT and transformers make of adapters and merged models, for exports.ts.

Reads the file given as argument, a JSON list of jobs, and writes the list of their results.
  {"job": "read", "base", "adapter", "merged", "ids"}  ->  {"adapter": logprobs, "merged": logprobs}
  {"job": "save", "base", "adapter", "ids", "settings", "seed"}  ->  {"adapter": logprobs}, the folder written
Log-probabilities are log p(ids[i + 1] | ids[..i]), computed in f32 from the weights as they are stored.
"""

import json
import sys
from pathlib import Path

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM
from transformers.utils import logging

logging.set_verbosity_error()
logging.disable_progress_bar()
torch.set_num_threads(1)


def load(folder):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()


def logprobs(model, ids):
    with torch.no_grad():
        rows = model(input_ids=torch.tensor([ids])).logits[0].log_softmax(-1)[:-1]
    return rows.gather(1, torch.tensor(ids[1:])[:, None])[:, 0].tolist()


def read(job):
    adapter = PeftModel.from_pretrained(load(job["base"]), job["adapter"]).eval()
    names = {name.replace(".default.", ".") for name, _ in adapter.named_parameters() if "lora_" in name}
    assert names == set(load_file(f"{job['adapter']}/adapter_model.safetensors")), "PEFT left tensors out"
    return {"adapter": logprobs(adapter, job["ids"]), "merged": logprobs(load(job["merged"]), job["ids"])}


def save(job):
    torch.manual_seed(job["seed"])
    model = get_peft_model(load(job["base"]), LoraConfig(task_type="CAUSAL_LM", **job["settings"])).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_" in name:
                weight.copy_(0.2 * torch.randn_like(weight))
    model.save_pretrained(job["adapter"])
    return {"adapter": logprobs(model, job["ids"])}


jobs = json.loads(Path(sys.argv[1]).read_text(encoding="utf8"))
json.dump([{"read": read, "save": save}[job["job"]](job) for job in jobs], sys.stdout)
