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
from safetensors.torch import save_file
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import AutoTokenizer, Qwen3Config, Qwen3ForCausalLM

VECTORS = Path(__file__).resolve().parent.parent / "test" / "vectors"
PROJECTIONS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
TEMPERATURES = [1.0, 0.7]
ENTROPY_COEF = 0.1
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
    # The usual initialisation (0.02) gives nearly uniform logits, which would hide mistakes.
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "norm" in name:
                weight.copy_(1 + 0.2 * torch.randn_like(weight))
            elif "embed" in name:
                weight.copy_(0.3 * torch.randn_like(weight))
            else:
                # Strong layers, or the tied embedding would repeat its own input for ever.
                gain = 4 if "o_proj" in name or "down_proj" in name else 1.5
                weight.copy_(gain * torch.randn_like(weight) / math.sqrt(weight.shape[1]))
    return model


def with_adapter(model):
    config = LoraConfig(r=4, lora_alpha=8, lora_dropout=0.0, target_modules=PROJECTIONS, task_type="CAUSAL_LM")
    peft = get_peft_model(model, config).eval()
    with torch.no_grad():
        for name, weight in peft.named_parameters():
            if "lora_B" in name:
                weight.copy_(0.2 * torch.randn_like(weight))
    return peft


def log_softmax(model, ids, temperature):
    return (model(input_ids=torch.tensor([ids])).logits[0] / temperature).log_softmax(-1)


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
    peft.save_pretrained(folder / "adapter")
    (folder / "adapter" / "README.md").unlink()
    settings = json.loads((folder / "adapter" / "adapter_config.json").read_text(encoding="utf8"))
    settings["target_modules"].sort()  # a set: its order differs from run to run
    write_json(folder / "adapter" / "adapter_config.json", settings)
    describe("adapter", peft)

    def saved_name(name):
        return name.replace(".default.", ".")

    lora = {saved_name(n): p for n, p in peft.named_parameters() if "lora_" in n}
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

    adamw = {"lr": 1e-2, "weightDecay": 0.01, "beta1": 0.9, "beta2": 0.95, "eps": 1e-8, "steps": 3}
    optimiser = torch.optim.AdamW(
        lora.values(), lr=adamw["lr"], weight_decay=adamw["weightDecay"], eps=adamw["eps"],
        betas=(adamw["beta1"], adamw["beta2"]),
    )
    before = []
    for _ in range(adamw["steps"]):
        optimiser.zero_grad()
        value = objective(peft, samples, 1.0)
        value.backward()
        before.append(value.item())
        optimiser.step()
    for name, parameter in lora.items():
        tensors[f"adamw.{name}"] = parameter.detach().clone()
    adamw["objectiveBeforeStep"] = before

    save_file({name: t.detach().contiguous() for name, t in tensors.items()}, folder / "expected.safetensors")
    write_json(folder / "vectors.json", {
        "entropyCoef": ENTROPY_COEF, "samples": results, "objective": objectives, "adamw": adamw,
    })


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


def byte_tokenizer():
    """Byte-level BPE in Qwen's form (NFC, its split pattern), trained on a few sentences."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    pattern = (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    tokenizer.decoder = decoders.ByteLevel()
    text = STRINGS + [m["content"] for messages in MESSAGES for m in messages]
    text += ["user", "assistant", "system", "\n\n", "\n\n\n", "<|im_end|>", "民法典 借款 合同 欠钱 不还 怎么办 第一条 第二条"] * 3
    trainer = trainers.BpeTrainer(
        vocab_size=420, min_frequency=1, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(text, trainer)
    made = json.loads(tokenizer.to_str())
    specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    start = len(made["model"]["vocab"])
    names = specials + ["<tool_call>", "<think>", "</think>"]
    made["added_tokens"] = [added_token(start + i, t, t in specials) for i, t in enumerate(names)]
    return made


def tokenizer_vectors(name, made):
    folder = fresh(VECTORS / name)
    write_json(folder / "tokenizer.json", made)
    write_json(folder / "tokenizer_config.json", {
        "tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>",
        "clean_up_tokenization_spaces": False, "model_max_length": 1024,
    })
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE, encoding="utf8")
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
    for text in STRINGS:
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
        for kwargs in [{}, {"enable_thinking": False}]:
            text = auto.apply_chat_template(messages, tokenize=False, add_generation_prompt=True, **kwargs)
            ids = markup.encode(text, add_special_tokens=False).ids
            chats.append({"messages": messages, "kwargs": kwargs, "text": text, "ids": ids})
    write_json(folder / "vectors.json", {"texts": texts, "decoded": decoded, "chats": chats})


qwen3_tiny()
half_precision()
tokenizer_vectors("char-tokenizer", char_tokenizer())
tokenizer_vectors("byte-tokenizer", byte_tokenizer())
