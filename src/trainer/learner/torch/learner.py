"""The `torch` learner: LoRA gradients of packed token trees, on one or many processes.

    python -m torch.distributed.run --nproc-per-node 2 learner.py

needs torch, transformers and safetensors. torch-process.ts starts it and talks to rank 0 over a Unix socket
whose path is in LEXPO_SOCKET; rank 0 hands every request on, so that all ranks do the same thing in the same
order. A message is a safetensors file behind its length (wire.ts); what it means stands under "requests" below.

What is parallel: the trees of a batch are dealt out by their token counts; gradients gather in each rank and are
summed over the ranks (not averaged) when an update is asked for; every rank then makes the same update. Weights
are frozen in the chosen dtype; the adapter, the loss and the optimiser are float32. There is no dropout, hence
no randomness: on the CPU equal requests give equal bytes.
"""

import argparse
import ctypes
import datetime
import functools
import json
import math
import os
import signal
import socket
import sys
import threading


def fail(what, where="", hint=""):
    """Ends this rank, and so all of them, with an error that the user reads as one sentence."""
    error = json.dumps({"what": str(what), "where": str(where), "hint": str(hint)})
    os.write(2, f"\nLEXPO-ERROR {error}\n".encode())  # one write: lines of several ranks do not mix
    sys.exit(1)


try:
    import safetensors.torch
    import torch
    import torch.distributed as dist
    import torch.nn.functional as F
    import transformers
except ImportError as error:
    fail(
        f"has no {error.name} ({error})",
        sys.executable,
        "pip install torch transformers safetensors, or set learner.python to an interpreter that has them",
    )

WIRE_VERSION = 1
ATTENTION = "lexpo_tree"
# Elements of one f32 chunk of logits, and of one chunk of the optimiser's f64 arithmetic.
LOGITS_CHUNK = 1 << 26
UPDATE_CHUNK = 1 << 22


# ---- the wire --------------------------------------------------------------------------------------------


def encode(kind, body, tensors):
    meta = json.dumps({"version": WIRE_VERSION, "kind": kind, **body}, allow_nan=False)
    contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    return safetensors.torch.save(contiguous, metadata={"lexpo": meta})


def decode(data):
    """(kind, body, tensors on the CPU)"""
    header_end = 8 + int.from_bytes(data[:8], "little")
    body = json.loads(json.loads(data[8:header_end])["__metadata__"]["lexpo"])
    if body.get("version") != WIRE_VERSION:
        fail(
            f"speaks version {WIRE_VERSION} of the learner's wire form, and got version {body.get('version')}",
            __file__,
            "use learner.py and lexpo of the same release, on every machine",
        )
    return body["kind"], body, safetensors.torch.load(data)


class Link:
    """The socket to lexpo: each frame is its length (u64, little-endian) and a message."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)

    def read(self):
        """The next message, or None when lexpo has closed the connection, or has ended."""
        head = self._exactly(8)
        return None if head is None else self._exactly(int.from_bytes(head, "little"))

    def _exactly(self, size):
        data = bytearray(size)
        view, done = memoryview(data), 0
        while done < size:
            got = self.socket.recv_into(view[done:])
            if got == 0:
                return None
            done += got
        return bytes(data)

    def write(self, kind, body, tensors):
        data = encode(kind, body, tensors)
        self.socket.sendall(len(data).to_bytes(8, "little") + data)


# ---- the ranks -------------------------------------------------------------------------------------------


class Ranks:
    """All processes of the run. Requests and row values travel over gloo, gradients over nccl where there are GPUs."""

    def __init__(self, device, timeout_s):
        self.rank, self.count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.device = device
        if self.count > 1:
            dist.init_process_group(
                "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo",
                timeout=datetime.timedelta(seconds=timeout_s),
            )

    def share(self, data):
        """Rank 0's bytes (or None) in every rank."""
        if self.count == 1:
            return data
        size = torch.tensor([-1 if data is None else len(data)])
        dist.broadcast(size, 0)
        if size.item() < 0:
            return None
        buffer = bytearray(size.item()) if data is None else bytearray(data)
        dist.broadcast(torch.frombuffer(buffer, dtype=torch.uint8), 0)
        return bytes(buffer)

    def sum(self, tensor):
        """Sums a tensor over the ranks, in place."""
        if self.count > 1:
            dist.all_reduce(tensor)
        return tensor

    def gather(self, value):
        """The JSON values of all ranks, in their order."""
        if self.count == 1:
            return [value]
        values = [None] * self.count
        dist.all_gather_object(values, value)
        return values

    def close(self):
        if self.count > 1:
            dist.destroy_process_group()


def deal(sizes, ranks):
    """Rank of each tree: the longest first, each to the rank with the fewest tokens that still has room.

    Room is an even share of the trees, which bounds a rank's padded positions.
    """
    room = math.ceil(len(sizes) / ranks)
    load, held, owner = [0] * ranks, [0] * ranks, [0] * len(sizes)
    for tree in sorted(range(len(sizes)), key=lambda tree: -sizes[tree]):
        rank = min((r for r in range(ranks) if held[r] < room), key=lambda r: load[r])
        owner[tree], load[rank], held[rank] = rank, load[rank] + sizes[tree], held[rank] + 1
    return owner


def parts(trees, lengths, budget):
    """The trees in order, in as few parts of at most `budget` tokens as that gives; a longer tree is a part alone."""
    part, held = [], 0
    for tree in trees:
        if part and held + lengths[tree] > budget:
            yield part
            part, held = [], 0
        part.append(tree)
        held += lengths[tree]
    yield part


def is_out_of_memory(error):
    # The allocator of the CPU has no error of its own.
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


# ---- the model -------------------------------------------------------------------------------------------


@functools.cache
def flex_attention(device_type):
    from torch.nn.attention import flex_attention as flex

    # Without the compiler flex attention forms all scores: right for a small check on the CPU only.
    return torch.compile(flex.flex_attention) if device_type == "cuda" else flex.flex_attention


def tree_attention(module, query, key, value, attention_mask, scaling=None, tree=None, **_):
    """Attention under the mask of `tree_layout`: query [b, heads, t, d], key and value [b, kv heads, t, d]."""
    grouped = query.shape[1] != key.shape[1]
    if isinstance(tree, torch.Tensor):
        out = F.scaled_dot_product_attention(query, key, value, tree, scale=scaling, enable_gqa=grouped)
    else:
        attend = flex_attention(query.device.type)
        out = attend(query, key, value, block_mask=tree, scale=scaling, enable_gqa=grouped)
    return out.transpose(1, 2).contiguous(), None


transformers.AttentionInterface.register(ATTENTION, tree_attention)
transformers.utils.logging.disable_progress_bar()


def dense_mask(end):
    """[b, 1, t, t]: position i sees j when j <= i < end[j]."""
    at = torch.arange(end.shape[1], device=end.device)
    return ((at[:, None] >= at) & (at[:, None] < end[:, None, :]))[:, None]


def block_mask(end):
    """The same rule for one sequence `end` [t], as blocks: those that nothing sees are never computed."""
    from torch.nn.attention.flex_attention import create_block_mask

    def visible(batch, head, i, j):
        return (i >= j) & (i < end[j])

    return create_block_mask(visible, None, None, len(end), len(end), device=end.device)


def tree_layout(batch, trees, lengths, flex):
    """What the model runs of some trees of a batch: ids [b, t], positions [b, t], mask, and where each tree begins
    among the b * t positions.

    With flex attention the trees lie behind each other in one sequence without padding: ends of subtrees never
    leave a tree, so the rule for one sequence keeps trees apart too. A dense mask needs trees side by side.
    """
    length = max(lengths[tree] for tree in trees)
    if not flex:
        cut = {name: batch[name][trees, :length] for name in ("ids", "positions", "subtreeEnd")}
        begins = {tree: i * length for i, tree in enumerate(trees)}
        return cut["ids"], cut["positions"], dense_mask(cut["subtreeEnd"]), begins
    begins, total = {}, 0
    for tree in trees:
        begins[tree], total = total, total + lengths[tree]
    # Whole blocks of 128, and few different lengths, since each new one may be compiled anew.
    padding = -total % 512

    own = torch.arange(total, total + padding, device=batch["ids"].device)
    ends = [batch["subtreeEnd"][tree, : lengths[tree]].clamp(max=lengths[tree]) + begins[tree] for tree in trees]
    ids, positions = (
        torch.cat([*(batch[name][tree, : lengths[tree]] for tree in trees), torch.zeros_like(own)])[None]
        for name in ("ids", "positions")
    )
    return ids, positions, block_mask(torch.cat([*ends, own + 1])), begins


class LoraLinear(torch.nn.Module):
    """y = W x (+ b) + scale * B A x. `pairs` holds A and B by the name of the weights: none for the base model."""

    def __init__(self, base, scale, active):
        super().__init__()
        self.base, self.scale, self.active, self.pairs = base, scale, active, {}

    def forward(self, x):
        y = self.base(x)
        pair = self.pairs.get(self.active["weights"])
        if pair is None:
            return y
        a, b = (weight.to(x.dtype) for weight in pair)
        return y + F.linear(F.linear(x, a) * self.scale, b)


def load_base(folder, dtype, device):
    version = tuple(int(part) for part in transformers.__version__.split(".")[:2])
    name = "dtype" if version >= (4, 56) else "torch_dtype"
    try:
        model = transformers.AutoModelForCausalLM.from_pretrained(
            folder, attn_implementation=ATTENTION, local_files_only=True, **{name: dtype}
        )
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        fail(
            f"transformers {transformers.__version__} cannot load it ({error})",
            folder,
            "check the model folder, or use a transformers that knows this architecture",
        )
    return model.to(device)


# ---- the head --------------------------------------------------------------------------------------------


def f32_logits(hidden, weight):
    """hidden [n, d] x weight [vocab, d] -> f32 [n, vocab], without rounding the sums to half precision on the way."""
    if hidden.is_cuda and hidden.dtype != torch.float32 and hasattr(torch.ops.aten.mm, "dtype"):
        return torch.mm(hidden, weight.T, out_dtype=torch.float32)
    return F.linear(hidden, weight).float()


def head(hidden, weight, target, temperature, coef=None, entropy_coef=None):
    """Log-probabilities and entropies of rows [n], and with coefficients the gradient of hidden [n, d].

    With logits z, p = softmax(z), H its entropy, S = coef * log p[target] + entropy_coef * H:
    dS/dz_j = coef * (1[j = target] - p_j) - entropy_coef * p_j * (log p_j + H). Chunk by chunk: the logits of all
    rows never exist at once.
    """
    logprobs, entropies = (torch.empty(len(hidden), device=hidden.device) for _ in range(2))
    gradient = None if coef is None else torch.empty_like(hidden)
    step = max(1, LOGITS_CHUNK // len(weight))
    for start in range(0, len(hidden), step):
        rows = slice(start, start + step)
        log_p = F.log_softmax(f32_logits(hidden[rows], weight) / temperature, dim=-1)
        p = log_p.exp()
        entropies[rows] = -(p * log_p).sum(-1)
        logprobs[rows] = log_p.gather(1, target[rows, None])[:, 0]
        if gradient is None:
            continue
        # In place, log_p becomes dS/dz: there is room for two such chunks, not for four.
        log_p.add_(entropies[rows, None]).mul_(entropy_coef[rows, None]).add_(coef[rows, None]).mul_(p).neg_()
        log_p.scatter_add_(1, target[rows, None], coef[rows, None])
        gradient[rows] = (log_p / temperature).to(weight.dtype) @ weight
    return logprobs, entropies, gradient


# ---- the learner -----------------------------------------------------------------------------------------


class Learner:
    """A base model, an adapter of it, its frozen reference, and the optimiser's moments.

    All tensors of the adapter are views into one vector, in the order of `shapes` (PEFT's names), and so are their
    gradients, moments and reference: summing over ranks, updating and saving are then about one vector each.
    """

    def __init__(self, model, ranks, shapes, scale, optimizer, flex, checkpointing=False):
        self.model, self.ranks, self.shapes, self.optimizer, self.flex = model, ranks, shapes, optimizer, flex
        self.device = next(model.parameters()).device
        model.requires_grad_(False)
        # Training mode turns on gradient checkpointing; there is no dropout that it could turn on.
        model.config.attention_dropout = 0.0
        model.train()
        if checkpointing:
            name = "activation_checkpointing_enable"  # its name since transformers 5
            enable = getattr(model, name, None) or model.gradient_checkpointing_enable
            enable({"use_reentrant": False})
        size = sum(math.prod(shape) for shape in shapes.values())
        self.theta, self.gradient, self.first, self.second = (
            torch.zeros(size, device=self.device) for _ in range(4)
        )
        self.reference, self.step = None, 0
        self.budget = None  # tokens of this rank at once, at most; None as long as memory has sufficed
        self.active = {"weights": "policy"}
        self.modules = self._wrap(scale)
        parameters = {name: torch.nn.Parameter(view) for name, view in self._views(self.theta).items()}
        for name, view in self._views(self.gradient).items():
            parameters[name].grad = view
        self._bind("policy", parameters)

    def _views(self, vector):
        parts = vector.split([math.prod(shape) for shape in self.shapes.values()])
        return {name: part.view(shape) for (name, shape), part in zip(self.shapes.items(), parts)}

    def _wrap(self, scale):
        modules = {}
        for path in dict.fromkeys(module_path(name) for name in self.shapes):
            parent, _, name = path.rpartition(".")
            parent = self.model.get_submodule(parent)
            modules[path] = LoraLinear(getattr(parent, name), scale, self.active)
            setattr(parent, name, modules[path])
        return modules

    def _bind(self, weights, tensors):
        for path, module in self.modules.items():
            a, b = (tensors[f"base_model.model.{path}.lora_{side}.weight"] for side in "AB")
            module.pairs[weights] = (a, b)

    # State: what a checkpoint holds.

    def _vectors(self):
        vectors = {"adapter": self.theta, "first": self.first, "second": self.second}
        return vectors if self.reference is None else {**vectors, "reference": self.reference}

    def set_state(self, tensors, step):
        if any(name.startswith("reference.") for name in tensors):
            self._keep_reference()
        for prefix, vector in self._vectors().items():
            for name, view in self._views(vector).items():
                view.copy_(tensors[f"{prefix}.{name}"])
        self.step = step

    def state(self):
        # Ranks that drifted apart would train on gradients of different policies, and nothing else would show it.
        sums = self.ranks.gather(self.theta.double().sum().item().hex())
        if len(set(sums)) > 1:
            raise RuntimeError(f"the ranks hold different adapters: {sums}")
        return {
            f"{prefix}.{name}": view
            for prefix, vector in self._vectors().items()
            for name, view in self._views(vector).items()
        }

    def _keep_reference(self):
        self.reference = self.theta.clone()
        self._bind("reference", self._views(self.reference))

    def freeze_reference(self):
        self._keep_reference()
        self.first.zero_()
        self.second.zero_()
        self.step = 0

    # A pass over a batch.

    def run(self, batch, weights, temperature, coef=None, entropy_coef=None):
        """(body, row values [rows]) of a batch under some weights; with coefficients their gradient gathers too."""
        if weights == "reference" and self.reference is None:
            weights = "base"
        self.active["weights"] = weights
        length = batch["ids"].shape[1]
        tree_of_row = batch["hiddenIndex"] // length
        # Past the last position that a row needs a tree holds padding only.
        lengths = [0] * len(batch["ids"])
        for tree, at in zip(tree_of_row.tolist(), (batch["hiddenIndex"] % length).tolist()):
            lengths[tree] = max(lengths[tree], at + 1)
        owner = deal(lengths, self.ranks.count)
        mine = [tree for tree, rank in enumerate(owner) if rank == self.ranks.rank and lengths[tree] > 0]
        values = torch.zeros(2, len(tree_of_row) + 1)  # the last column: ranks whose memory ran out, and their budgets
        if mine:
            with torch.set_grad_enabled(coef is not None):
                budget = self._run_within_memory(
                    mine,
                    lengths,
                    lambda part: self._run_trees(
                        batch, part, lengths, tree_of_row, temperature, coef, entropy_coef, values
                    ),
                )
            if budget:
                values[0, -1], values[1, -1] = 1, budget
        self.ranks.sum(values)
        halved = int(values[0, -1].item())
        body = {"halved": {"ranks": halved, "tokens": int(values[1, -1].item() / halved)}} if halved else {}
        return body, {"logprobs": values[0, :-1].contiguous(), "entropies": values[1, :-1].contiguous()}

    def _run_within_memory(self, trees, lengths, run):
        """Runs trees at once, or in parts within the budget. When memory runs out for the first time, the budget
        becomes half of what was tried, and is returned; otherwise 0. A second failure is the caller's, as is one of
        a single tree.
        """
        if self.budget is not None:
            for part in parts(trees, lengths, self.budget):
                run(part)
            return 0
        before = self.gradient.clone()
        try:
            run(trees)
            return 0
        except RuntimeError as error:
            if len(trees) == 1 or not is_out_of_memory(error):
                raise
        # Behind the handler, whose traceback holds what the failed pass had allocated.
        self.gradient.copy_(before)
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        longest, total = max(lengths[tree] for tree in trees), sum(lengths[tree] for tree in trees)
        self.budget = max(longest, total // 2)
        self._run_within_memory(trees, lengths, run)
        return self.budget

    def _run_trees(self, batch, trees, lengths, tree_of_row, temperature, coef, entropy_coef, values):
        batch = {name: tensor.long() for name, tensor in batch.items()}
        on_device = {name: batch[name].to(self.device) for name in ("ids", "positions", "subtreeEnd")}
        ids, positions, mask, begins = tree_layout(on_device, trees, lengths, self.flex)
        rows = torch.isin(tree_of_row, torch.tensor(trees, dtype=tree_of_row.dtype)).nonzero()[:, 0]
        moved = [begins[tree] for tree in tree_of_row[rows].tolist()]
        index = batch["hiddenIndex"][rows] % batch["ids"].shape[1] + torch.tensor(moved)
        states = self.model.base_model(input_ids=ids, position_ids=positions, tree=mask, use_cache=False)
        hidden = states.last_hidden_state.flatten(0, 1)[index.to(self.device)]
        pick = lambda values: None if values is None else values[rows].to(self.device)  # noqa: E731
        with torch.no_grad():
            logprobs, entropies, gradient = head(
                hidden.detach(),
                self.model.get_output_embeddings().weight,
                pick(batch["targetId"]),
                temperature,
                pick(coef),
                pick(entropy_coef),
            )
        if gradient is not None:
            hidden.backward(gradient)
        values[0, rows], values[1, rows] = logprobs.cpu(), entropies.cpu()

    def update(self, learning_rate):
        """AdamW as optimizer.ts does it: in f64, rounded to f32 where it is stored. (norm before clipping, applied)"""
        self.ranks.sum(self.gradient)
        norm = math.sqrt(sum(part.double().square().sum().item() for part in self.gradient.split(UPDATE_CHUNK)))
        applied = math.isfinite(norm)
        if applied:
            self._adamw(norm, learning_rate)
        self.gradient.zero_()
        return norm, applied

    def _adamw(self, norm, learning_rate):
        (beta1, beta2), eps, decay = self.optimizer["betas"], self.optimizer["eps"], self.optimizer["weightDecay"]
        clip = self.optimizer["clipNorm"]
        scale = clip / norm if norm > clip else 1
        self.step += 1
        correct1, correct2 = 1 - beta1**self.step, 1 - beta2**self.step
        vectors = (vector.split(UPDATE_CHUNK) for vector in (self.theta, self.gradient, self.first, self.second))
        for theta, gradient, first, second in zip(*vectors):
            g = gradient.double() * scale
            first.copy_(first.double() * beta1 + g * (1 - beta1))
            second.copy_(second.double() * beta2 + g * (1 - beta2) * g)
            update = first.double() / correct1 / ((second.double() / correct2).sqrt() + eps)
            theta.copy_(theta.double() - learning_rate * (update + decay * theta.double()))


def module_path(name):
    """`base_model.model.model.layers.0.mlp.up_proj.lora_A.weight` -> `model.layers.0.mlp.up_proj`"""
    return name.removeprefix("base_model.model.").rsplit(".lora_", 1)[0]


# ---- requests --------------------------------------------------------------------------------------------


def batch_of(body, tensors):
    grid = (body["trees"], body["length"])
    batch = {name: tensors[name].view(grid) for name in ("ids", "positions", "subtreeEnd")}
    return batch | {name: tensors[name] for name in ("hiddenIndex", "targetId")}


def open_learner(body, tensors, ranks):
    dtype = {"float32": torch.float32, "bfloat16": torch.bfloat16}[body["dtype"]]
    model = load_base(body["modelFolder"], dtype, ranks.device)
    flex = body["attention"] == "flex" or (body["attention"] == "auto" and ranks.device.type == "cuda")
    learner = Learner(
        model, ranks, dict(body["shapes"]), body["scale"], body["optimizer"], flex, body["gradientCheckpointing"]
    )
    learner.set_state(tensors, body["step"])
    return learner


def answer(learner, kind, body, tensors, ranks):
    """(body, tensors) of the answer to a request to an open learner. Only rank 0's is sent."""
    if kind == "ping":
        return {"ranks": int(ranks.sum(torch.ones(1)).item())}, {}
    if kind == "rowValues":
        return learner.run(batch_of(body, tensors), body["weights"], body["temperature"])
    if kind == "accumulate":
        coefs = (tensors["coef"], tensors["entropyCoef"])
        return learner.run(batch_of(body, tensors), "policy", body["temperature"], *coefs)
    if kind == "update":
        norm, applied = learner.update(body["learningRate"])
        return {"gradNorm": norm if applied else None, "applied": applied}, {}
    if kind == "freezeReference":
        learner.freeze_reference()
        return {}, {}
    if kind == "state":
        return {"step": learner.step}, learner.state()
    raise ValueError(f"unknown request {kind}")


def choose_device(wanted):
    local, gpus = int(os.environ["LOCAL_WORLD_SIZE"]), torch.cuda.device_count() if torch.cuda.is_available() else 0
    if wanted == "cpu" or (wanted == "auto" and gpus == 0):
        return torch.device("cpu")
    if gpus == 0:
        fail(
            "is cuda, and this PyTorch sees no GPU",
            "learner.device",
            f"check nvidia-smi and the build of torch ({torch.__version__} for CUDA {torch.version.cuda}), or set cpu",
        )
    if local > gpus:
        fail(f"is {local}, and there are {gpus} GPUs", "learner.processes", f"set it to at most {gpus}")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    return device


def end_with_parent():
    """This process must not outlive lexpo: it ends when torchrun does (Linux), and when lexpo's pipe closes."""
    if sys.platform == "linux":
        parent_death_signal = 1
        ctypes.CDLL(None).prctl(parent_death_signal, signal.SIGKILL)

    def watch():
        while os.read(0, 1 << 10):
            pass
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    options.add_argument("--threads", default=1, type=int)
    options.add_argument("--timeout-s", default=1800, type=float)
    given = options.parse_args()
    torch.set_num_threads(given.threads)
    path = os.environ.get("LEXPO_SOCKET")  # absent on machines whose ranks were started by hand
    if path:
        end_with_parent()
    ranks = Ranks(choose_device(given.device), given.timeout_s)
    about = {"rank": ranks.rank, "pid": os.getpid(), "host": socket.gethostname()}
    everyone = ranks.gather(about)
    link = Link(path) if ranks.rank == 0 else None
    if link:
        device = torch.cuda.get_device_name() if ranks.device.type == "cuda" else "cpu"
        link.write("hello", {"ranks": everyone, "device": device, "torch": torch.__version__}, {})
    learner = None
    while (data := ranks.share(link.read() if link else None)) is not None:
        kind, body, tensors = decode(data)
        try:
            if kind == "open":
                learner = None  # its memory is free before the next one is loaded
                learner, reply = open_learner(body, tensors, ranks), ({}, {})
            else:
                reply = answer(learner, kind, body, tensors, ranks)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            fail(
                f"rank {ranks.rank} ran out of memory ({str(error).splitlines()[0]})",
                "learner",
                "lower learner.tokensPerPass or set learner.gradientCheckpointing: true and go on with --resume, "
                "or start anew with less learner.maxTreeTokens or learner.dtype: bfloat16",
            )
        if link:
            link.write("reply", *reply)
    ranks.close()


if __name__ == "__main__":
    main()
