"""Samples with transformers' `generate`, for scripts/bench-serve.ts.

The first line of stdin is the work: model folder, threads, new tokens per sample, prompts (token ids; a
prompt stands there once for each of its samples). Every further line is {"batch": n}: all samples are drawn
in batches of n, at temperature 1 from the whole distribution, each with the log-probabilities of its tokens,
and one line goes back: {"seconds": s, "cpuSeconds": s, "tokens": n}.
"""

import json
import sys
import time

import torch
import transformers

transformers.logging.set_verbosity_error()
work = json.loads(sys.stdin.readline())
torch.set_num_threads(work["threads"])
model = transformers.AutoModelForCausalLM.from_pretrained(work["model"], dtype=torch.float32).eval()
pad = model.generation_config.pad_token_id or 0
# Like lengths together: the least padding that batches can have.
prompts = sorted(work["prompts"], key=len)
count = work["newTokens"]


def sample(rows):
    """Token ids and log-probabilities of one batch, as lists."""
    length = max(len(row) for row in rows)
    ids = torch.tensor([[pad] * (length - len(row)) + row for row in rows])
    mask = torch.tensor([[0] * (length - len(row)) + [1] * len(row) for row in rows])
    out = model.generate(
        input_ids=ids,
        attention_mask=mask,
        do_sample=True,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        max_new_tokens=count,
        min_new_tokens=count,
        eos_token_id=None,
        pad_token_id=pad,
        output_logits=True,
        return_dict_in_generate=True,
    )
    drawn = out.sequences[:, length:]
    logprobs = [
        torch.log_softmax(logits, -1).gather(1, drawn[:, i : i + 1])[:, 0] for i, logits in enumerate(out.logits)
    ]
    return drawn.tolist(), torch.stack(logprobs, 1).tolist()


print(json.dumps({"torch": torch.__version__, "transformers": transformers.__version__}), flush=True)
for line in sys.stdin:
    batch = json.loads(line)["batch"]
    start, cpu = time.perf_counter(), time.process_time()
    tokens = 0
    with torch.inference_mode():
        for at in range(0, len(prompts), batch):
            drawn, logprobs = sample(prompts[at : at + batch])
            assert all(len(row) == count for row in drawn) and len(logprobs) == len(drawn)
            tokens += count * len(drawn)
    taken = {"seconds": time.perf_counter() - start, "cpuSeconds": time.process_time() - cpu}
    print(json.dumps({**taken, "tokens": tokens}), flush=True)
