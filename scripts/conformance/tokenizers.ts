/**
 * Tokenizers and chat templates against transformers': ids equal on statutes, questions, Chinese, English,
 * emoji, odd characters and random ones; and the prompts that messages render to.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { type Random, stream } from '../../src/base/random.ts';
import type { Message } from '../../src/env/types.ts';
import { loadChatTemplate, renderPromptIds } from '../../src/rollout/chat-template.ts';
import { loadTokenizer } from '../../src/rollout/tokenizer.ts';
import { runPython } from '../python/run-python.ts';
import type { Area, Check } from './check.ts';

const PROGRAM = fileURLToPath(new URL('tokenizer_ids.py', import.meta.url));
const path = (name: string): string => fileURLToPath(new URL(`../../${name}`, import.meta.url));
const FOLDERS: Record<string, string> = {
  "the demo model's": path('models/tiny'),
  "byte-level BPE (Qwen's form)": path('test/vectors/byte-tokenizer'),
  'characters with byte fallback': path('test/vectors/char-tokenizer'),
};

const ODD = [
  '',
  ' ',
  '\n',
  '  a  b\t\r\n\n',
  "It's 2024-06-01, don't! I'LL",
  '😀👩‍⚖️🏳️‍🌈 🇨🇳',
  'e\u0301 é Å \u212b ﬁ',
  '\ufeffx\ufeff',
  '\x00\x7f\u200b\u3000\u00a0',
  '龘𠮷\u{10ffff}',
  '第264条第1款（三）项：“盗窃”，数额较大的……',
  '１２３　ＡＢＣ',
  'مرحبا שלום नमस्ते สวัสดี',
  '{"action":"rewrite","queries":["借款 利息"]}\n',
  '<0xE4><0x>',
  '<|im_end|>',
  '第<|im_start|>条<think>\n</think>',
  '<|im_<|im_end|>end|>',
  '<|endoftext|',
  '\n\nuser\n ',
];

function textsFor(random: Random): string[] {
  const lines = (name: string): string[] => readFileSync(path(name), 'utf8').trim().split('\n');
  const statutes = lines('data/demo/statutes.jsonl').map(
    (line) => z.object({ text: z.string() }).parse(JSON.parse(line)).text,
  );
  const questions = lines('data/demo/train.jsonl').map(
    (line) => z.object({ query: z.string() }).parse(JSON.parse(line)).query,
  );
  const real = random.shuffle([...statutes, ...questions]).slice(0, 300);
  const cut = real.map((text) => text.slice(random.int(text.length), 1 + random.int(text.length)));
  return [...ODD, ...real, ...cut, ...Array.from({ length: 400 }, () => randomText(random))];
}

/** Runs of characters from one block or another. */
function randomText(random: Random): string {
  const blocks: [number, number][] = [
    [0x20, 0x7f],
    [0x61, 0x7b],
    [0x30, 0x3a],
    [0xa0, 0x250],
    [0x300, 0x370],
    [0x3000, 0x3040],
    [0x4e00, 0x9fa6],
    [0xff00, 0xff60],
    [0x1f300, 0x1f650],
    [0x9, 0xe],
  ];
  const runs = Array.from({ length: 1 + random.int(6) }, () => {
    const [from, to] = blocks[random.int(blocks.length)]!;
    const characters = Array.from({ length: 1 + random.int(5) }, () => from + random.int(to - from));
    return String.fromCodePoint(...characters);
  });
  return runs.join('');
}

const CHATS: { messages: Message[]; kwargs: Record<string, unknown> }[] = [
  { messages: [{ role: 'user', content: '欠钱不还怎么办？' }], kwargs: {} },
  {
    messages: [
      { role: 'system', content: 'Say {"action":"stop"}.\n' },
      { role: 'user', content: '\n\n 借钱 \n' },
      { role: 'assistant', content: '是。' },
      { role: 'user', content: "It's 第2条 😀" },
    ],
    kwargs: {},
  },
  { messages: [{ role: 'user', content: '' }], kwargs: {} },
  { messages: [{ role: 'user', content: '欠钱不还怎么办？' }], kwargs: { enable_thinking: false } },
];

const answers = z.array(
  z.object({
    ids: z.array(z.array(z.number())),
    decoded: z.array(z.string()),
    chats: z.array(z.array(z.number())),
  }),
);

/** Errors are counts of texts that differ; none may. `more`: folders besides our own, by name. */
export function tokenizerChecks(python: string, scratch: string, more: Record<string, string>): Area {
  const folders = { ...FOLDERS, ...more };
  const texts = textsFor(stream(5, 'conformance', 'tokenizers'));
  const file = join(scratch, 'tokenizers.json');
  writeFileSync(
    file,
    JSON.stringify(Object.values(folders).map((folder) => ({ folder, texts, chats: CHATS }))),
  );
  const theirs = answers.parse(JSON.parse(runPython(python, [PROGRAM, file])));
  const checks: Check[] = [];
  for (const [i, [name, folder]] of Object.entries(folders).entries()) {
    const { ids, decoded, chats } = theirs[i]!;
    const tokenizer = loadTokenizer(folder);
    const template = loadChatTemplate(folder);
    const count = (check: string, of: number, differs: (k: number) => boolean): void => {
      const error = Array.from({ length: of }, (_, k) => k).filter(differs).length;
      checks.push({ check: `${name}: ${check}, ${of} of them`, error, tolerance: 0 });
    };
    const plain = texts.flatMap((text, k) =>
      tokenizer.splitControl(text).some((part) => typeof part === 'number') ? [] : [k],
    );
    const unlike = (a: readonly number[], b: readonly number[]): boolean => a.join() !== b.join();
    count('ids of texts, control tokens meant', texts.length, (k) =>
      unlike(tokenizer.encodeMarkup(texts[k]!), ids[k]!),
    );
    count('ids of texts from outside', plain.length, (k) =>
      unlike(tokenizer.encode(texts[plain[k]!]!), ids[plain[k]!]!),
    );
    count(
      'texts of ids',
      texts.length,
      (k) => tokenizer.decode(ids[k]!, { skipSpecial: false }) !== decoded[k],
    );
    count('prompts of messages', CHATS.length, (k) => {
      const { messages, kwargs } = CHATS[k]!;
      return unlike(
        renderPromptIds(template, tokenizer, messages, { addGenerationPrompt: true, kwargs }),
        chats[k]!,
      );
    });
  }
  return { title: "Tokenizers and chat templates, against transformers' (texts that differ)", checks };
}
