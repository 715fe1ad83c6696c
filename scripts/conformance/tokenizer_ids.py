"""What transformers' tokenizers say, for tokenizers.ts.

Reads the file given as argument, a JSON list of jobs {folder, texts, chats: [{messages, kwargs}]}, and writes a
JSON list of {ids: [ids of each text], decoded: [each text's ids decoded], chats: [ids of each chat]}.
"""

import json
import sys
from pathlib import Path

from transformers import AutoTokenizer


def run(job):
    tokenizer = AutoTokenizer.from_pretrained(job["folder"])
    ids = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in job["texts"]]
    chats = [
        tokenizer.apply_chat_template(
            chat["messages"], tokenize=True, return_dict=False, add_generation_prompt=True, **chat["kwargs"]
        )
        for chat in job["chats"]
    ]
    decoded = [tokenizer.decode(row, clean_up_tokenization_spaces=False) for row in ids]
    return {"ids": ids, "decoded": decoded, "chats": chats}


json.dump([run(job) for job in json.loads(Path(sys.argv[1]).read_text(encoding="utf8"))], sys.stdout)
