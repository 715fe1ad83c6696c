import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { stream } from '../base/random.ts';
import { temporaryFolder } from '../base/test-support.ts';
import { loadTokenizer } from './tokenizer.ts';

const vectors = fileURLToPath(new URL('../../test/vectors', import.meta.url));
const scratch = temporaryFolder();

interface Vectors {
  texts: { text: string; markup: number[]; plain: number[]; decoded: string; withoutSpecial: string }[];
  decoded: { ids: number[]; text: string }[];
}

/** Of every family: Qwen's form and ours, SmolLM's, Llama 3's, Llama 2's, Mistral's. */
const NAMES = ['char', 'byte', 'smollm', 'llama3', 'llama2', 'mistral'].map((name) => `${name}-tokenizer`);

describe.each(NAMES)('%s', (name) => {
  const tokenizer = loadTokenizer(join(vectors, name));
  const reference: Vectors = JSON.parse(readFileSync(join(vectors, name, 'vectors.json'), 'utf8'));

  test('ids and texts equal those of the reference implementation', () => {
    for (const { text, markup, plain, decoded, withoutSpecial } of reference.texts) {
      expect([text, tokenizer.encodeMarkup(text)]).toEqual([text, markup]);
      expect([text, tokenizer.encode(text)]).toEqual([text, plain]);
      expect(tokenizer.decode(markup, { skipSpecial: false })).toBe(decoded);
      expect(tokenizer.decode(markup, { skipSpecial: true })).toBe(withoutSpecial);
    }
    for (const { ids, text } of reference.decoded) {
      expect([ids, tokenizer.decode(ids, { skipSpecial: false })]).toEqual([ids, text]);
    }
  });

  test('any text comes back, and no text makes a control token', () => {
    const random = stream(3, name);
    const control = new Set(tokenizer.controlTokens.map((token) => token.id));
    const pieces = [
      ...tokenizer.controlTokens.map((token) => token.content),
      ...[
        '{"action":"',
        '"}',
        '法',
        '第十条\n',
        ' ',
        '\n',
        '😀',
        '\ufeff',
        '<|',
        '|>',
        'im_',
        'é',
        '\u0000',
        '<0x41>',
        'a',
      ],
    ];
    for (let i = 0; i < 500; i++) {
      const text = Array.from({ length: random.int(12) }, () => pieces[random.int(pieces.length)]).join('');
      const ids = tokenizer.encode(text);
      expect(ids.filter((id) => control.has(id))).toEqual([]);
      expect(tokenizer.decode(ids, { skipSpecial: true })).toBe(asSpoken(text));
      const markup = tokenizer.encodeMarkup(text);
      expect(tokenizer.encodeParts(tokenizer.splitControl(text))).toEqual(markup);
      expect(markup.length * tokenizer.longestToken).toBeGreaterThanOrEqual(text.length);
      // SentencePiece puts a space after each control token of the older form
      if (name !== 'llama2-tokenizer')
        expect(tokenizer.decode(markup, { skipSpecial: false })).toBe(asSpoken(text));
    }
  });

  /** In Mistral's form a text that begins with a space gets no other, and loses this one. */
  const asSpoken = (text: string): string =>
    name === 'mistral-tokenizer' && text.startsWith(' ') ? text.slice(1) : text;
});

describe.each(['char-tokenizer', 'byte-tokenizer'])('%s', (name) => {
  const tokenizer = loadTokenizer(join(vectors, name));

  test('token ids, vocabulary size, ids without a token', () => {
    const end = tokenizer.tokenId('<|im_end|>')!;
    expect(tokenizer.encodeMarkup('a<|im_end|>').at(-1)).toBe(end);
    expect(tokenizer.tokenId('no such token')).toBeUndefined();
    expect(tokenizer.vocabSize).toBe(
      1 + Math.max(...tokenizer.controlTokens.map((t) => t.id), tokenizer.tokenId('[1,"') ?? 0),
    );
    expect(tokenizer.decode([tokenizer.vocabSize + 5, end], { skipSpecial: false })).toBe('<|im_end|>');
    expect(tokenizer.decode([], { skipSpecial: false })).toBe('');
  });
});

test('the token that starts a text of its own', () => {
  const start = (name: string) => {
    const tokenizer = loadTokenizer(join(vectors, `${name}-tokenizer`));
    return tokenizer.startId === null ? null : tokenizer.decode([tokenizer.startId], { skipSpecial: false });
  };
  expect(start('byte')).toBeNull();
  expect(start('smollm')).toBeNull();
  expect(start('llama3')).toBe('<|begin_of_text|>');
  expect(start('llama2')).toBe('<s>');
});

test('a stretch of text after a control token: marked as the first in Llama 2’s form, not in Mistral’s', () => {
  const marks = (name: string) => {
    const tokenizer = loadTokenizer(join(vectors, `${name}-tokenizer`));
    const [mark, end] = [tokenizer.tokenId('▁')!, tokenizer.tokenId('</s>')!];
    const ids = tokenizer.encodeParts(['法', end, '法', end, ' ']);
    return ids.map((id) => (id === mark ? '▁' : id === end ? '|' : '.')).join('');
  };
  expect(marks('llama2')).toMatch(/^▁\.+\|▁\.+\|(▁▁|\.)$/);
  expect(marks('mistral')).toMatch(/^▁\.+\|\.+\|▁$/);
});

test('added tokens that are not special are recognised in plain text, tags are not', () => {
  const tokenizer = loadTokenizer(join(vectors, 'char-tokenizer'));
  expect(tokenizer.encode('{"action":"')).toEqual([tokenizer.tokenId('{"action":"')]);
  expect(tokenizer.encode('<think>')).toHaveLength(7);
  expect(tokenizer.controlTokens.filter((t) => !t.special).map((t) => t.content)).toEqual([
    '<|planner|>',
    '<think>',
    '</think>',
  ]);
});

test('a token that tokenizer_config.json names is special, whatever tokenizer.json says', () => {
  cpSync(join(vectors, 'char-tokenizer'), scratch, { recursive: true });
  const file = join(scratch, 'tokenizer_config.json');
  writeFileSync(file, JSON.stringify({ eos_token: { content: '"}' }, additional_special_tokens: ['[1,"'] }));
  const tokenizer = loadTokenizer(scratch);
  const end = tokenizer.tokenId('"}')!;
  expect(tokenizer.encode('a"}')).not.toContain(end);
  expect(tokenizer.decode([end], { skipSpecial: true })).toBe('');
  expect(tokenizer.controlTokens.find((t) => t.content === '[1,"')?.special).toBe(true);
});

test('what would give other ids is refused', () => {
  const original = JSON.parse(readFileSync(join(vectors, 'char-tokenizer', 'tokenizer.json'), 'utf8'));
  const added = original.added_tokens[0];
  const cases: [RegExp, Record<string, unknown>][] = [
    [/model type Unigram/, { model: { ...original.model, type: 'Unigram' } }],
    [/decoder Metaspace/, { decoder: { type: 'Metaspace' } }],
    [/decoder none/, { decoder: null }],
    [/prefix space/, { pre_tokenizer: { type: 'ByteLevel', add_prefix_space: true } }],
    [/<\|endoftext\|> with single_word/, { added_tokens: [{ ...added, rstrip: true }] }],
    [/one-character token #/, { added_tokens: [{ ...added, content: '#' }] }],
    [/model/, { model: undefined }],
    [
      /a vocabulary without 2 of the 256 bytes/,
      {
        model: {
          ...original.model,
          vocab: { ...original.model.vocab, '<0x00>': undefined, '<0xFF>': undefined },
        },
      },
    ],
    [
      /control token <\|im_end\|>, which ordinary text merges to/,
      { model: { ...original.model, merges: [['<|im', '_end|>']] } },
    ],
  ];
  for (const [message, changes] of cases) {
    writeFileSync(join(scratch, 'tokenizer.json'), JSON.stringify({ ...original, ...changes }));
    expect(() => loadTokenizer(scratch)).toThrow(message);
  }
  const marked = JSON.parse(readFileSync(join(vectors, 'mistral-tokenizer', 'tokenizer.json'), 'utf8'));
  const replaced = { type: 'Replace', pattern: { String: ' ' }, content: '▁' };
  const forms: [RegExp, Record<string, unknown>][] = [
    [/decoder Sequence/, { pre_tokenizer: { ...marked.pre_tokenizer, split: true } }],
    [/decoder Sequence/, { pre_tokenizer: { type: 'Metaspace', replacement: '_' } }],
    [/decoder Sequence/, { normalizer: { type: 'NFKC' } }],
    [/decoder Sequence/, { normalizer: { type: 'Sequence', normalizers: [replaced] }, pre_tokenizer: null }],
    [/decoder Metaspace/, { decoder: { type: 'Metaspace' } }],
    [/<s> with normalized/, { added_tokens: [{ ...marked.added_tokens[1], normalized: true }] }],
  ];
  for (const [message, changes] of forms) {
    writeFileSync(join(scratch, 'tokenizer.json'), JSON.stringify({ ...marked, ...changes }));
    expect(() => loadTokenizer(scratch), JSON.stringify(changes)).toThrow(message);
  }
  expect(() => loadTokenizer(join(vectors, 'qwen3-tiny'))).toThrow(/tokenizer.json is missing/);
  expect(() => loadTokenizer(join(vectors, 'nowhere'))).toThrow(/no such folder/);
});
