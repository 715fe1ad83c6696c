"""The inside of bench-gpu.ts: times learner.py's passes on a randomly initialised model of Qwen3-4B's shape.

    python bench-gpu.py <learner.py> <folder> [--tiny] [--profile]

The folder holds, for each way of packing, the same samples' passes as messages of the learner's wire form. Prints
one line of JSON; no GPU: {"skipped": …}.
"""

import argparse
import gc
import importlib.util
import json
import os
import statistics
import sys
import time
from pathlib import Path

options = argparse.ArgumentParser()
options.add_argument("learner", type=Path)
options.add_argument("folder", type=Path)
options.add_argument("--tiny", action="store_true")
options.add_argument("--profile", action="store_true")
given = options.parse_args()

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
os.environ |= {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
spec = importlib.util.spec_from_file_location("learner", given.learner)
learner = importlib.util.module_from_spec(spec)
spec.loader.exec_module(learner)
import torch  # noqa: E402
import transformers  # noqa: E402

QWEN3_4B = {
    "vocab_size": 151936, "hidden_size": 2560, "num_hidden_layers": 36, "num_attention_heads": 32,
    "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 9728, "max_position_embeddings": 40960,
    "rope_theta": 1e6, "rms_norm_eps": 1e-6, "tie_word_embeddings": True,
}  # fmt: skip
TINY = {
    **QWEN3_4B, "vocab_size": 512, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 128,
}  # fmt: skip
RANK, ALPHA = 16, 32
# Dense bf16 peak of a card in FLOP/s, by a part of its name, as its maker states it.
PEAKS = {"H100": 989.4e12, "H200": 989.4e12, "B200": 2250e12, "A100": 312e12, "L40S": 362e12, "RTX 4090": 165.2e12}
REPEATS = 2 if given.tiny else 5


def build_model(shape, device, dtype):
    config = transformers.Qwen3Config(**shape)
    config._attn_implementation = learner.ATTENTION
    torch.manual_seed(1)
    torch.set_default_dtype(dtype)
    with torch.device(device):
        model = transformers.Qwen3ForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    return model


def lora_shapes(model):
    """PEFT's names and shapes, for all seven projections of every layer."""
    shapes = {}
    for path, module in model.named_modules():
        if isinstance(module, torch.nn.Linear) and ".layers." in path:
            shapes[f"base_model.model.{path}.lora_A.weight"] = (RANK, module.in_features)
            shapes[f"base_model.model.{path}.lora_B.weight"] = (module.out_features, RANK)
    return shapes


def open_learner(device, dtype, checkpointing):
    model = build_model(TINY if given.tiny else QWEN3_4B, device, dtype)
    shapes = lora_shapes(model)
    optimizer = {"betas": [0.9, 0.99], "eps": 1e-8, "weightDecay": 0, "clipNorm": 1}
    ranks = learner.Ranks(device, 60)
    out = learner.Learner(model, ranks, shapes, ALPHA / RANK, optimizer, device.type == "cuda", checkpointing)
    generator = torch.Generator(device=device).manual_seed(2)
    out.theta.copy_(torch.randn(out.theta.shape, generator=generator, device=device) * 0.02)
    return out


def read_passes(packing):
    passes = []
    for file in sorted((given.folder / packing).iterdir()):
        _, body, tensors = learner.decode(file.read_bytes())
        passes.append((learner.batch_of(body, tensors), tensors["coef"], tensors["entropyCoef"]))
    return passes


def flops(model, shapes, passes):
    """Arithmetic that a pass needs: forward, and backward through frozen weights, whose own gradients nobody asks
    for; a position attends to as many positions as its depth. Recomputation does not count. And, for comparison
    with figures of full training, 6 times weights times positions."""
    config = model.config
    linear = sum(
        module.base.weight.numel() for module in model.modules() if isinstance(module, learner.LoraLinear)
    )
    lora = sum(a * b for a, b in shapes.values())
    vocabulary = config.vocab_size * config.hidden_size
    needed = convention = positions = rows = 0
    for batch, _, _ in passes:
        used = torch.zeros_like(batch["ids"], dtype=torch.bool)
        length = batch["ids"].shape[1]
        for tree in range(len(used)):
            mine = batch["hiddenIndex"][batch["hiddenIndex"] // length == tree]
            used[tree, : int(mine.max()) % length + 1] = True
        n, r = int(used.sum()), len(batch["hiddenIndex"])
        pairs = int((batch["positions"][used].long() + 1).sum())
        attention = 4 * config.num_attention_heads * config.head_dim * config.num_hidden_layers * pairs
        needed += 2 * (2 * linear * n + 2 * vocabulary * r) + 3 * 2 * lora * n + 3 * attention
        convention += 6 * (linear + vocabulary) * n
        positions, rows = positions + n, rows + r
    return needed, convention, positions, rows


def synchronise(device):
    if device.type == "cuda":
        torch.cuda.synchronize()


def gather(model, passes):
    for batch, coef, entropy_coef in passes:
        model.run(batch, "policy", 1.0, coef, entropy_coef)


def measure(packing, device, dtype, checkpointing):
    passes = read_passes(packing)
    model = open_learner(device, dtype, checkpointing)
    gather(model, passes)  # compiles, and fills caches
    norm, _ = model.update(0.0)
    seconds = []
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    for _ in range(REPEATS):
        synchronise(device)
        started = time.perf_counter()
        gather(model, passes)
        synchronise(device)
        seconds.append(time.perf_counter() - started)
        model.gradient.zero_()
    needed, convention, positions, rows = flops(model.model, model.shapes, passes)
    if given.profile:
        profile(model, passes)
    median = statistics.median(seconds)
    peak = next((value for name, value in PEAKS.items() if name in device_name(device)), None)
    return {
        "packing": packing,
        "gradientCheckpointing": checkpointing,
        "passes": len(passes),
        "positions": positions,
        "rows": rows,
        "seconds": median,
        "tokensPerSecond": positions / median,
        "teraflops": needed / median / 1e12,
        "mfu": peak and needed / median / peak,
        "mfuBySixN": peak and convention / median / peak,
        "peakMemoryGB": torch.cuda.max_memory_allocated() / 1e9 if device.type == "cuda" else None,
        "gradNorm": norm,
    }


def profile(model, passes):
    from torch.profiler import ProfilerActivity, profile as record

    on_gpu = model.device.type == "cuda"
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    with record(activities=activities) as recorded:
        gather(model, passes[:1])
        synchronise(model.device)
    key = "self_cuda_time_total" if on_gpu else "self_cpu_time_total"
    print(recorded.key_averages().table(sort_by=key, row_limit=20), file=sys.stderr)


def device_name(device):
    return torch.cuda.get_device_name() if device.type == "cuda" else "cpu"


def main():
    if given.tiny:
        device, dtype = torch.device("cpu"), torch.float32
    elif torch.cuda.is_available():
        device, dtype = torch.device("cuda"), torch.bfloat16
    else:
        return {"skipped": f"PyTorch {torch.__version__} sees no GPU"}
    results = []
    for packing in ("tree", "plain"):
        for checkpointing in (False, True):
            try:
                results.append(measure(packing, device, dtype, checkpointing))
            except torch.OutOfMemoryError as error:
                note = {"packing": packing, "gradientCheckpointing": checkpointing}
                results.append({**note, "outOfMemory": str(error).splitlines()[0]})
            gc.collect()
            if device.type == "cuda":
                torch.cuda.empty_cache()
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    return {"device": device_name(device), "dtype": str(dtype).removeprefix("torch."), "versions": versions, "results": results}


print(json.dumps(main()))
