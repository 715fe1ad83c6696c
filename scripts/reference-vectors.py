"""Writes test/vectors/: what PyTorch, transformers, PEFT, safetensors and tokenizers say, for our tests.

    pip install torch transformers peft safetensors tokenizers
    python scripts/reference-vectors.py

Seeded; run on the CPU. Tests read the committed outputs and need no Python.
"""

import copy
import json
import math
import random
import shutil
from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, LlamaConfig, Qwen3Config, Qwen3ForCausalLM
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

VECTORS = Path(__file__).resolve().parent.parent / "test" / "vectors"
PROJECTIONS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
TEMPERATURES = [1.0, 0.7]
ENTROPY_COEF = 0.1
ADAMW = {"lr": 1e-2, "weightDecay": 0.01, "beta1": 0.9, "beta2": 0.95, "eps": 1e-8}
FULL_WEIGHTS = [
    "model.embed_tokens.weight",
    "model.layers.0.input_layernorm.weight",
    "model.layers.1.self_attn.q_norm.weight",
    "model.layers.1.mlp.down_proj.weight",
]


def write_json(path, value):
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf8")


def fresh(folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


# ---- Qwen3 -----------------------------------------------------------------------------------------------


def tiny_model():
    torch.manual_seed(20240602)
    config = Qwen3Config(
        vocab_size=96, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        head_dim=8, intermediate_size=48, tie_word_embeddings=True, max_position_embeddings=64,
        rope_theta=10000.0, rms_norm_eps=1e-6, bos_token_id=None, eos_token_id=1, pad_token_id=0,
        attn_implementation="eager",
    )
    model = Qwen3ForCausalLM(config).float().eval()
    randomise(model)
    return model


def randomise(model):
    """Weights with a say: the usual initialisation (0.02) gives nearly uniform logits, which would hide mistakes."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "norm" in name:
                weight.copy_(1 + 0.2 * torch.randn_like(weight))
            elif name.endswith("bias"):
                weight.copy_(0.5 * torch.randn_like(weight))
            elif "embed" in name:
                weight.copy_(0.3 * torch.randn_like(weight))
            else:
                # Strong layers, or the tied embedding would repeat its own input for ever.
                gain = 4 if "o_proj" in name or "down_proj" in name else 1.5
                weight.copy_(gain * torch.randn_like(weight) / math.sqrt(weight.shape[1]))


def with_adapter(model, r=4, **settings):
    config = LoraConfig(
        r=r, lora_alpha=8, lora_dropout=0.0, target_modules=PROJECTIONS, task_type="CAUSAL_LM", **settings
    )
    peft = get_peft_model(model, config).eval()
    with torch.no_grad():
        for name, weight in peft.named_parameters():
            if "lora_B" in name:
                weight.copy_(0.2 * torch.randn_like(weight))
    return peft


def save_adapter(peft, folder):
    peft.save_pretrained(folder)
    (folder / "README.md").unlink()
    settings = json.loads((folder / "adapter_config.json").read_text(encoding="utf8"))
    settings["target_modules"].sort()  # a set: its order differs from run to run
    settings["base_model_name_or_path"] = folder.parent.name  # not where the machine keeps it
    write_json(folder / "adapter_config.json", settings)


def log_softmax(model, ids, temperature):
    return (model(input_ids=torch.tensor([ids])).logits[0] / temperature).log_softmax(-1)


def lora_parameters(peft):
    """By the names under which they are saved."""
    return {n.replace(".default.", "."): p for n, p in peft.named_parameters() if "lora_" in n}


def objective(model, samples, temperature):
    """Σ coef · logprob + 0.1 · Σ entropy over the rows; row i of a sample predicts token promptLength + i."""
    total = 0.0
    for sample in samples:
        start = sample["promptLength"]
        rows = log_softmax(model, sample["ids"], temperature)[start - 1 : -1]
        targets = torch.tensor(sample["ids"][start:])
        logprobs = rows.gather(1, targets[:, None])[:, 0]
        entropy = -(rows.exp() * rows).sum(-1)
        total = total + (torch.tensor(sample["coef"]) * logprobs).sum() + ENTROPY_COEF * entropy.sum()
    return total


def minimise(peft, samples, adamw):
    """torch.optim.AdamW on the LoRA tensors, objective at temperature 1; its value before each step."""
    optimiser = torch.optim.AdamW(
        lora_parameters(peft).values(), lr=adamw["lr"], weight_decay=adamw["weightDecay"], eps=adamw["eps"],
        betas=(adamw["beta1"], adamw["beta2"]),
    )
    before = []
    for _ in range(adamw["steps"]):
        optimiser.zero_grad()
        value = objective(peft, samples, 1.0)
        value.backward()
        before.append(value.item())
        optimiser.step()
    return before


def greedy(model, prompt, count):
    ids = list(prompt)
    for _ in range(count):
        best = log_softmax(model, ids, 1.0)[-1].topk(2)
        assert best.values[0] - best.values[1] > 1e-2, "too close to call: choose another seed"
        ids.append(int(best.indices[0]))
    return ids[len(prompt) :]


def qwen3_tiny():
    folder = fresh(VECTORS / "qwen3-tiny")
    model = tiny_model()
    model.save_pretrained(folder)
    draw = random.Random(7)
    samples = []
    for length, prompt_length in [(6, 2), (11, 4), (17, 9)]:
        ids = [draw.randrange(2, 96) for _ in range(length)]
        coef = [round(draw.uniform(-1, 1), 3) for _ in range(length - prompt_length)]
        samples.append({"ids": ids, "promptLength": prompt_length, "coef": coef})
    tensors = {}
    results = [{**sample, "base": {}, "adapter": {}} for sample in samples]

    def describe(kind, model):
        for i, sample in enumerate(samples):
            ids, start = sample["ids"], sample["promptLength"]
            with torch.no_grad():
                tensors[f"logits.{kind}.{i}"] = model(input_ids=torch.tensor([ids])).logits[0].contiguous()
                for temperature in TEMPERATURES:
                    rows = log_softmax(model, ids, temperature)[:-1]
                    results[i][kind][f"temperature {temperature:g}"] = {
                        "logprobs": rows.gather(1, torch.tensor(ids[1:])[:, None])[:, 0].tolist(),
                        "entropies": (-(rows.exp() * rows).sum(-1)).tolist(),
                    }
                results[i][kind]["greedy"] = greedy(model, ids[:start], 8)

    describe("base", model)
    peft = with_adapter(model)
    save_adapter(peft, folder / "adapter")
    describe("adapter", peft)

    lora = lora_parameters(peft)
    full = {n.replace("base_model.model.", "", 1).replace(".base_layer", ""): p for n, p in peft.named_parameters()}
    full = {name: full[name] for name in FULL_WEIGHTS}
    for parameter in full.values():
        parameter.requires_grad_(True)
    objectives = {}
    for temperature in TEMPERATURES:
        peft.zero_grad()
        value = objective(peft, samples, temperature)
        value.backward()
        objectives[f"temperature {temperature:g}"] = value.item()
        for name, parameter in {**lora, **full}.items():
            tensors[f"gradient.{temperature:g}.{name}"] = parameter.grad.clone()
    for parameter in full.values():
        parameter.requires_grad_(False)

    adamw = {**ADAMW, "steps": 3}
    adamw["objectiveBeforeStep"] = minimise(peft, samples, adamw)
    for name, parameter in lora.items():
        tensors[f"adamw.{name}"] = parameter.detach().clone()

    save_file({name: t.detach().contiguous() for name, t in tensors.items()}, folder / "expected.safetensors")
    write_json(folder / "vectors.json", {
        "entropyCoef": ENTROPY_COEF, "samples": results, "objective": objectives, "adamw": adamw,
    })


def full_parameters():
    """Every weight of the tiny Qwen3 trained, without an adapter: full.safetensors beside the model."""
    folder = VECTORS / "qwen3-tiny"
    samples = json.loads((folder / "vectors.json").read_text(encoding="utf8"))["samples"]
    model = tiny_model()
    weights = dict(model.named_parameters())
    # eps is large: with a small one a gradient that is nothing but rounding would decide an update's sign
    optimiser = torch.optim.AdamW(weights.values(), lr=1e-2, weight_decay=0.01, eps=1e-3, betas=(0.9, 0.95))
    tensors = {}
    before = []
    for step in range(5):
        optimiser.zero_grad()
        value = objective(model, samples, 1.0)
        value.backward()
        before.append(value.item())
        if step == 0:
            tensors = {f"gradient.{name}": weight.grad.clone() for name, weight in weights.items()}
        optimiser.step()
    tensors |= {f"adamw.{name}": weight.detach().clone() for name, weight in weights.items()}
    tensors["objectiveBeforeStep"] = torch.tensor(before)
    save_file({name: t.contiguous() for name, t in tensors.items()}, folder / "full.safetensors")


# ---- families --------------------------------------------------------------------------------------------

TINY = {
    "vocab_size": 48, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 24, "hidden_act": "silu", "max_position_embeddings": 64, "rms_norm_eps": 1e-6,
    "bos_token_id": 2, "eos_token_id": 1, "attention_dropout": 0.0, "initializer_range": 0.02, "use_cache": True,
}


def family(model_type, name, **fields):
    return {**TINY, "architectures": [name + "ForCausalLM"], "model_type": model_type, **fields}


# config.json as such models are published, the dtype of their weights, and how many shards these are in. Context
# lengths and theta are small, so that the scaled frequencies matter within a few positions.
FAMILIES = {
    "qwen3": (family(
        "qwen3", "Qwen3", head_dim=6, tie_word_embeddings=True, attention_bias=False,
        rope_parameters={"rope_type": "default", "rope_theta": 1000.0}, use_sliding_window=False, sliding_window=None,
    ), torch.float32, 1),
    "qwen2.5": (family(
        "qwen2", "Qwen2", tie_word_embeddings=False, rope_theta=1000.0, use_sliding_window=False, sliding_window=32,
        max_window_layers=1, torch_dtype="bfloat16",
    ), torch.bfloat16, 3),
    "qwen2.5-yarn": (family(
        "qwen2", "Qwen2", tie_word_embeddings=True, rope_theta=50.0, num_key_value_heads=1,
        rope_scaling={"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16},
    ), torch.float32, 1),
    "llama3": (family(
        "llama", "Llama", tie_word_embeddings=True, attention_bias=False, mlp_bias=False, head_dim=8,
        eos_token_id=[1, 4, 5], pretraining_tp=1, rope_theta=50.0, rope_scaling={
            "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 32,
        },
    ), torch.bfloat16, 1),
    # no head_dim; three heads, as in the smallest SmolLM2
    "smollm": (family(
        "llama", "Llama", tie_word_embeddings=True, attention_bias=False, mlp_bias=False, hidden_size=18,
        num_attention_heads=3, num_key_value_heads=1, rope_theta=100000, rope_scaling=None, rope_interleaved=False,
        is_llama_config=True, pretraining_tp=1,
    ), torch.float32, 1),
    "llama-biases": (family(
        "llama", "Llama", tie_word_embeddings=False, attention_bias=True, mlp_bias=True, num_key_value_heads=4,
        rope_scaling={"type": "linear", "factor": 4.0},
    ), torch.float32, 2),
    "mistral": (family(
        "mistral", "Mistral", tie_word_embeddings=False, head_dim=6, rope_theta=1000.0, sliding_window=None,
    ), torch.float16, 1),
}


def write_weights(model, folder, dtype, shards):
    """As published: norms stay float32 in a half-precision model of several shards, which so is of mixed dtypes."""
    tensors = dict(model.state_dict())
    if model.config.tie_word_embeddings:
        del tensors["lm_head.weight"]
    narrow = {
        n: (t if shards > 1 and "norm" in n else t.to(dtype)).contiguous() for n, t in tensors.items()
    }
    names = list(narrow)
    if shards == 1:
        return save_file(narrow, folder / "model.safetensors", metadata={"format": "pt"})
    files = {name: f"model-{1 + i * shards // len(names):05}-of-{shards:05}.safetensors" for i, name in enumerate(names)}
    for file in set(files.values()):
        save_file({n: narrow[n] for n in names if files[n] == file}, folder / file, metadata={"format": "pt"})
    size = sum(t.nbytes for t in narrow.values())
    write_json(folder / "model.safetensors.index.json", {"metadata": {"total_size": size}, "weight_map": files})


def family_vectors(name, config, dtype, shards):
    folder = fresh(VECTORS / "families" / name)
    write_json(folder / "config.json", config)
    torch.manual_seed(sum(map(ord, name)))
    made = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder), dtype=torch.float32)
    randomise(made)
    write_weights(made, folder, dtype, shards)
    draw = random.Random(name)
    samples = []
    for length, prompt_length in [(6, 2), (19, 4), (28, 20)]:
        ids = [draw.randrange(3, 48) for _ in range(length)]
        coef = [round(draw.uniform(-1, 1), 3) for _ in range(length - prompt_length)]
        samples.append({"ids": ids, "promptLength": prompt_length, "coef": coef})

    def load():
        return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()

    tensors = {}
    record = {"entropyCoef": ENTROPY_COEF, "adamw": {**ADAMW, "steps": 10}, "samples": samples, "kinds": {}}
    start = None
    for kind, settings in {"base": None, "lora": {"r": 2}, "rslora": {"r": 2, "use_rslora": True}}.items():
        model = load()
        if settings is not None:
            model = with_adapter(model, **settings)
            if start is None:
                save_adapter(model, folder / "adapter")
                start = load_file(folder / "adapter" / "adapter_model.safetensors")
            lora = lora_parameters(model)
            with torch.no_grad():
                for parameter_name, parameter in lora.items():
                    parameter.copy_(start[parameter_name])
        found = {"logprobs": [], "entropies": []}
        with torch.no_grad():
            for i, sample in enumerate(samples):
                ids = sample["ids"]
                rows = log_softmax(model, ids, 1.0)[:-1]
                found["logprobs"].append(rows.gather(1, torch.tensor(ids[1:])[:, None])[:, 0].tolist())
                found["entropies"].append((-(rows.exp() * rows).sum(-1)).tolist())
            last = samples[-1]["ids"]
            tensors[f"logits.{kind}"] = model(input_ids=torch.tensor([last])).logits[0].contiguous()
        if settings is not None:
            value = objective(model, samples, 0.7)
            value.backward()
            found["objective at temperature 0.7"] = value.item()
            tensors |= {f"gradient.{kind}.{n}": p.grad.clone() for n, p in lora.items()}
            found["objectiveBeforeStep"] = minimise(model, samples, record["adamw"])
            tensors |= {f"adamw.{kind}.{n}": p.detach().clone() for n, p in lora.items()}
        record["kinds"][kind] = found
    save_file({n: t.detach().contiguous() for n, t in tensors.items()}, folder / "expected.safetensors")
    write_json(folder / "vectors.json", record)


def rotary():
    """Frequencies of published models' sizes."""
    llama3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
    cases = [
        (128, {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, **llama3}),
        (64, {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 32.0, **llama3}),
        (128, {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}),
        (128, {"rope_theta": 1000000.0, **yarn}),
        (96, {"rope_theta": 10000.0, **yarn, "factor": 1.5, "beta_fast": 20.0, "beta_slow": 2.0}),
        # a bound of the ramp just above a whole pair; the upper bound cut off; a ramp without width
        (128, {"rope_theta": 10000.0, **yarn, "original_max_position_embeddings": 4096}),
        (16, {"rope_theta": 50.0, **yarn, "beta_fast": 500.0}),
        (16, {"rope_theta": 10000.0, **yarn, "original_max_position_embeddings": 6}),
    ]
    made = []
    for head_dim, parameters in cases:
        config = LlamaConfig(head_dim=head_dim, rope_parameters=dict(parameters))
        frequencies, magnitude = ROPE_INIT_FUNCTIONS[parameters["rope_type"]](config)
        made.append({
            "headDim": head_dim, "parameters": parameters, "magnitude": magnitude, "frequencies": frequencies.tolist(),
        })
    write_json(VECTORS / "families" / "rotary.json", made)


# ---- safetensors -----------------------------------------------------------------------------------------


def half_precision():
    torch.manual_seed(3)
    scales = torch.tensor([10.0**e for e in range(-9, 5)])
    values = torch.cat([
        torch.tensor([0.0, -0.0, 1.0, -2.5, float("inf"), float("-inf"), 65504.0, 65519.99, 2.0**-24, 2.0**-25,
                      3 * 2.0**-25, 2.0**-14, 2.0**-14 - 2.0**-26, 1 + 2.0**-11, 1 + 3 * 2.0**-11, 1 + 2.0**-8,
                      1 + 3 * 2.0**-8]),
        (torch.randn(20, 14) * scales).flatten().clamp(-65000, 65000),
    ])
    save_file(
        {"values": values, "halves": values.half(), "brain": values.bfloat16(), "matrix": torch.randn(3, 5)},
        VECTORS / "half.safetensors", metadata={"note": "法"},
    )


# ---- tokenizers ------------------------------------------------------------------------------------------

STRINGS = [
    "", "你借钱", "中华人民共和国刑法第一条", '{"action":"stop"}\n', '{"action":"rewrite","reason":"[1,"', "  a  b\t\r\n\n",
    "😀👩‍⚖️", "e\u0301 é \u212b", "\ufeffx\ufeff", "<0xE4><0x>", "<|im_end|>", "第<|im_start|>条<think>\n</think>",
    "<|im_<|im_end|>end|>", "<|endoftext|", "\x00\x7f\u200b\u3000", "龘𠮷\U0010ffff", "It's 2024-06-01, don't!", "\n\nuser\n ",
]
MESSAGES = [
    [{"role": "user", "content": "欠钱不还怎么办？"}],
    [{"role": "system", "content": 'Say {"action":"stop"}.\n'}, {"role": "user", "content": "\n\n 借钱 \n"},
     {"role": "assistant", "content": "是。"}, {"role": "user", "content": "It's 第2条 😀"}],
    [{"role": "user", "content": ""}],
]
CHAT_TEMPLATE = """{% for message in messages %}
<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor %}
{% if add_generation_prompt %}
<|im_start|>assistant
{% if enable_thinking is defined and enable_thinking is false %}
<think>

</think>

{% endif %}
{% endif %}
"""


def added_token(id, content, special):
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {"id": id, "content": content, **flags, "special": special}


def char_tokenizer():
    """Characters with byte fallback, no merges, and whole JSON pieces as added tokens that are not special."""
    characters = [chr(c) for c in range(32, 127)] + ["\n"] + list("中华人民共和国刑法第条款的是否借欠钱怎么办，。？；：“”（）")
    names = [f"<0x{b:02X}>" for b in range(256)] + characters
    vocab = {name: i for i, name in enumerate(names)}
    specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    pieces = ["<|planner|>", "<think>", "</think>", '{"action":"', '"}', '","reason":"', '[1,"']
    added = [added_token(len(vocab) + i, t, t in specials) for i, t in enumerate(specials + pieces)]
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
        "pre_tokenizer": None, "post_processor": None,
        "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]},
        "model": {
            "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": True, "ignore_merges": False,
            "vocab": vocab, "merges": [],
        },
    }


def trained(tokenizer, vocab_size, alphabet):
    """tokenizer.json after training on a few sentences."""
    text = STRINGS + [m["content"] for messages in MESSAGES for m in messages]
    text += ["user", "assistant", "system", "\n\n", "\n\n\n", "<|im_end|>", "民法典 借款 合同 欠钱 不还 怎么办 第一条 第二条"] * 3
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size, min_frequency=1, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(text, trainer)
    return json.loads(tokenizer.to_str())


def split_pattern(digits):
    """How Qwen and Llama 3 cut text into words; they differ in how many digits make one."""
    return (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|" + digits
        + r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )


def byte_level(first, normalizer=None):
    tokenizer = Tokenizer(models.BPE())
    if normalizer:
        tokenizer.normalizer = normalizer
    use_regex = isinstance(first, pre_tokenizers.Digits)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        first, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=use_regex),
    ])
    tokenizer.decoder = decoders.ByteLevel()
    return trained(tokenizer, 420, pre_tokenizers.ByteLevel.alphabet())


def with_added(made, specials, others=()):
    """New ids behind the vocabulary."""
    start = len(made["model"]["vocab"])
    names = [*specials, *others]
    made["added_tokens"] = [added_token(start + i, t, t in specials) for i, t in enumerate(names)]
    return made


def byte_tokenizer():
    """Byte-level BPE in Qwen's form (NFC, its split pattern)."""
    made = byte_level(pre_tokenizers.Split(Regex(split_pattern(r"\p{N}")), behavior="isolated"), normalizers.NFC())
    return with_added(made, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], ["<tool_call>", "<think>", "</think>"])


def llama3_tokenizer():
    """Byte-level BPE in Llama 3's form: words of the vocabulary are taken whole, whatever the merges say."""
    made = byte_level(pre_tokenizers.Split(Regex(split_pattern(r"\p{N}{1,3}")), behavior="isolated"))
    for word in ["不还", "actions", "assistants"]:
        spelled = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str(word)[0][0]
        made["model"]["vocab"].setdefault(spelled, len(made["model"]["vocab"]))
    made["model"]["ignore_merges"] = True
    start = "<|begin_of_text|>"
    names = [start, "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|eom_id|>"]
    made = with_added(made, names)
    made["post_processor"] = start_template(start, made["added_tokens"][0]["id"])
    return made


def smollm_tokenizer():
    """Byte-level BPE in SmolLM's form: single digits, GPT-2's words, specials at the front of the vocabulary."""
    made = byte_level(pre_tokenizers.Digits(individual_digits=True))
    names = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<repo_name>"]
    vocab = sorted(made["model"]["vocab"], key=made["model"]["vocab"].get)
    made["model"]["vocab"] = {token: i for i, token in enumerate(names + vocab)}
    made["added_tokens"] = [added_token(i, t, True) for i, t in enumerate(names)]
    return made


def start_template(token, id):
    return {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": token, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {token: {"id": token, "ids": [id], "tokens": [token]}},
    }


def sentencepiece_tokenizer(metaspace, controls=()):
    """SentencePiece's form, as Llama 2 has it (normalizers) or as newer files do (a pre-tokenizer)."""
    mark = "\u2581"
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=True)
    made = trained(tokenizer, 330, [])
    specials = ["<unk>", "<s>", "</s>", *controls]
    names = specials + [f"<0x{b:02X}>" for b in range(256)]
    names += sorted(made["model"]["vocab"], key=made["model"]["vocab"].get)
    made["model"] |= {
        "vocab": {token: i for i, token in enumerate(names)}, "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True,
    }
    made["added_tokens"] = [added_token(i, t, True) for i, t in enumerate(specials)]
    made["pre_tokenizer"] = made["normalizer"] = None
    if metaspace:
        made["pre_tokenizer"] = {"type": "Metaspace", "replacement": mark, "prepend_scheme": "first", "split": False}
    else:
        replace = {"type": "Replace", "pattern": {"String": " "}, "content": mark}
        made["normalizer"] = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": mark}, replace]}
    made["decoder"] = {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": mark}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0},
    ]}
    made["post_processor"] = start_template("<s>", 1)
    return made


LLAMA3_TEMPLATE = """{{ bos_token }}
{%- for message in messages %}
    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + message['content'] | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
{%- endif %}
"""
# No system role, and nothing to be done for add_generation_prompt: an answer follows [/INST].
MISTRAL_TEMPLATE = """{{ bos_token }}
{%- for message in messages %}
    {%- if (message.role == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('user and assistant must take turns') }}
    {%- elif message.role == 'user' %}
        {{- '[INST] ' + message.content + ' [/INST]' }}
    {%- else %}
        {{- ' ' + message.content + eos_token }}
    {%- endif %}
{%- endfor %}
"""


def without_system(messages):
    words = [m["content"] for m in messages if m["role"] == "system"]
    first, *others = [m for m in messages if m["role"] != "system"]
    return [{**first, "content": "\n\n".join([*words, first["content"]])}, *others]


def tokenizer_vectors(name, made, template=CHAT_TEMPLATE, tokens=None, system=True):
    """`tokens`: the named ones of tokenizer_config.json. `system`: whether the template takes a system message."""
    folder = fresh(VECTORS / name)
    tokens = tokens or {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
    write_json(folder / "tokenizer.json", made)
    write_json(folder / "tokenizer_config.json", {
        "tokenizer_class": "PreTrainedTokenizerFast", **tokens, "clean_up_tokenization_spaces": False,
        "model_max_length": 1024,
    })
    (folder / "chat_template.jinja").write_text(template, encoding="utf8")
    markup = Tokenizer.from_str(json.dumps(made))
    # Plain text: the same tokenizer without the tokens that look like a tag or are special.
    without = copy.deepcopy(made)
    kept = [t for t in made["added_tokens"] if not t["special"] and not t["content"].startswith("<")]
    without["added_tokens"] = []
    plain = Tokenizer.from_str(json.dumps(without))
    size = len(made["model"]["vocab"])
    plain.add_tokens([t["content"] for t in kept])
    back = {size + i: t["id"] for i, t in enumerate(kept)}
    auto = AutoTokenizer.from_pretrained(folder)
    texts = []
    spelled = [] if template == CHAT_TEMPLATE else ["a".join(["", *(t["content"] for t in made["added_tokens"]), " "])]
    for text in STRINGS + spelled:
        ids = markup.encode(text, add_special_tokens=False).ids
        assert ids == auto(text, add_special_tokens=False)["input_ids"], text
        texts.append({
            "text": text, "markup": ids,
            "plain": [back.get(i, i) for i in plain.encode(text, add_special_tokens=False).ids],
            "decoded": markup.decode(ids, skip_special_tokens=False),
            "withoutSpecial": markup.decode(ids, skip_special_tokens=True),
        })
    draw = random.Random(11)
    decoded = []
    # A list is decoded whole; ids without a token are left out there too.
    for _ in range(12):
        ids = [draw.randrange(size + len(made["added_tokens"])) for _ in range(draw.randrange(1, 9))]
        decoded.append({"ids": ids, "text": markup.decode(ids, skip_special_tokens=False)})
    chats = []
    for messages in MESSAGES:
        for kwargs in [{}, {"enable_thinking": False}] if template == CHAT_TEMPLATE else [{}]:
            shown = messages if system else without_system(messages)
            text = auto.apply_chat_template(shown, tokenize=False, add_generation_prompt=True, **kwargs)
            ids = markup.encode(text, add_special_tokens=False).ids
            chats.append({"messages": messages, "kwargs": kwargs, "text": text, "ids": ids})
    write_json(folder / "vectors.json", {"texts": texts, "decoded": decoded, "chats": chats})


qwen3_tiny()
full_parameters()
for name, (config, dtype, shards) in FAMILIES.items():
    family_vectors(name, config, dtype, shards)
rotary()
half_precision()
tokenizer_vectors("char-tokenizer", char_tokenizer())
tokenizer_vectors("byte-tokenizer", byte_tokenizer())
tokenizer_vectors("smollm-tokenizer", smollm_tokenizer())
llama3 = {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"}
tokenizer_vectors("llama3-tokenizer", llama3_tokenizer(), LLAMA3_TEMPLATE, llama3)
sentencepiece = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
tokenizer_vectors("llama2-tokenizer", sentencepiece_tokenizer(False), MISTRAL_TEMPLATE, sentencepiece, system=False)
tokenizer_vectors(
    "mistral-tokenizer", sentencepiece_tokenizer(True, ["[INST]", "[/INST]"]), MISTRAL_TEMPLATE, sentencepiece,
    system=False,
)
