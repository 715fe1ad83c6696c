"""TRL's GRPOTrainer on recorded samples: what it computes, and what a step costs.

Reads a JSON list of jobs (the file given as argument), one trainer after the other. A job:
    model, tokenizer, adapter    folders; the adapter is trained on, and a frozen copy of it is the reference
    samples                      [{promptIds, outputIds, logprobs, advantage}]
    config                       fields of GRPOConfig
    steps, threads
    out                          a folder for step-<n>.safetensors (the adapter after step n, n in `keep`) and
                                 gradient.safetensors (of the first step, summed over micro-batches, clipped)
    wait                         true: each step waits for a line on stdin
Writes one JSON line a step, {"step", "seconds", "loss", "peakMegabytes"}, and {"done": true} at the end of a job.

GRPOTrainer.train() runs as it is, but for where samples and advantages come from. `use_vllm` is set after the
trainer is made, so that it corrects for the sampler without vLLM being there.
"""

import json
import shutil
import sys
import tempfile
import time
import warnings

warnings.filterwarnings("ignore")

import torch
from datasets import Dataset
from peft import PeftModel
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from transformers.utils import logging
from trl import GRPOConfig, GRPOTrainer

logging.set_verbosity_error()
logging.disable_progress_bar()


class Replay(GRPOTrainer):
    recorded = []
    total_loss = 0.0

    def _generate(self, prompts):
        prompt_ids = [s["promptIds"] for s in self.recorded]
        output_ids = [s["outputIds"] for s in self.recorded]
        logprobs = [s["logprobs"] for s in self.recorded]
        return prompt_ids, output_ids, None, [""] * len(prompts), logprobs, {}, None, []

    def _generate_and_score_completions(self, inputs):
        batch = super()._generate_and_score_completions(inputs)
        batch["advantages"] = torch.tensor([s["advantage"] for s in self.recorded])
        return batch

    def compute_loss(self, model, inputs, *args, **kwargs):
        loss = super().compute_loss(model, inputs, *args, **kwargs)
        self.total_loss += loss.item()
        return loss


def lora(model):
    """LoRA parameters by the names of an adapter's file; not those of the frozen reference."""
    return {n.replace(".default.", "."): p for n, p in model.named_parameters() if "lora_" in n and ".default." in n}


def save(tensors, path):
    save_file({name: t.detach().float().contiguous().clone() for name, t in tensors.items()}, path)


def peak_megabytes():
    """Largest resident size of this process; getrusage would count that of the process which started it."""
    try:
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024
    except OSError:
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)


class Watch(TrainerCallback):
    def __init__(self, job):
        self.job, self.trainer, self.start = job, None, 0.0

    def on_step_begin(self, args, state, control, **kwargs):
        if self.job.get("wait"):
            print(json.dumps({"ready": True, "peakMegabytes": peak_megabytes()}), flush=True)
            if not sys.stdin.readline():
                sys.exit(0)
        self.trainer.total_loss = 0.0
        self.start = time.perf_counter()

    def on_pre_optimizer_step(self, args, state, control, model=None, **kwargs):
        if state.global_step == 0 and self.job.get("out"):
            save({name: p.grad for name, p in lora(model).items()}, f"{self.job['out']}/gradient.safetensors")

    def on_step_end(self, args, state, control, model=None, **kwargs):
        seconds = time.perf_counter() - self.start
        if state.global_step in self.job.get("keep", []):
            save(lora(model), f"{self.job['out']}/step-{state.global_step}.safetensors")
        report = {"step": state.global_step, "seconds": seconds, "loss": self.trainer.total_loss}
        print(json.dumps({**report, "peakMegabytes": peak_megabytes()}), flush=True)


def run(job):
    torch.set_num_threads(job["threads"])
    torch.manual_seed(0)
    base = AutoModelForCausalLM.from_pretrained(job["model"], dtype=torch.float32)
    model = PeftModel.from_pretrained(base, job["adapter"], is_trainable=True)
    fields = dict(job["config"])
    use_vllm = fields.pop("use_vllm", False)
    config = GRPOConfig(
        output_dir=tempfile.mkdtemp(prefix="lexpo-trl-"),
        use_cpu=True, bf16=False, report_to=[], save_strategy="no", logging_steps=1, disable_tqdm=True,
        gradient_checkpointing=False, shuffle_dataset=False, lr_scheduler_type="constant", warmup_steps=0,
        num_generations=2, max_steps=job["steps"], **fields,
    )
    watch = Watch(job)
    tokenizer = AutoTokenizer.from_pretrained(job["tokenizer"])
    if tokenizer.pad_token_id >= base.config.vocab_size:
        tokenizer.pad_token = tokenizer.convert_ids_to_tokens(0)  # what padding holds is masked
    trainer = Replay(
        model=model, args=config, processing_class=tokenizer, callbacks=[watch],
        reward_funcs=lambda prompts, **_: [0.0] * len(prompts),
        train_dataset=Dataset.from_dict({"prompt": [str(i) for i in range(len(job["samples"]) // 2)]}),
    )
    watch.trainer = trainer
    trainer.recorded = job["samples"]
    trainer.use_vllm = use_vllm
    trainer.log = lambda *args, **kwargs: None  # it would print
    try:
        trainer.train()
    finally:
        shutil.rmtree(config.output_dir, ignore_errors=True)
    print(json.dumps({"done": True}), flush=True)


with open(sys.argv[1], encoding="utf8") as file:
    for job in json.load(file):
        run(job)
