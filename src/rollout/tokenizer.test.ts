import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, test } from 'vitest';
import { stream } from '../base/random.ts';
import { loadTokenizer } from './tokenizer.ts';

const vectors = fileURLToPath(new URL('../../test/vectors', import.meta.url));
const scratch = mkdtempSync(join(tmpdir(), 'tokenizer-'));
afterAll(() => rmSync(scratch, { recursive: true }));

interface Vectors {
  texts: { text: string; markup: number[]; plain: number[]; decoded: string; withoutSpecial: string }[];
  decoded: { ids: number[]; text: string }[];
}

describe.each(['char-tokenizer', 'byte-tokenizer'])('%s', (name) => {
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
      expect(tokenizer.decode(ids, { skipSpecial: true })).toBe(text);
      expect(tokenizer.decode(tokenizer.encodeMarkup(text), { skipSpecial: false })).toBe(text);
    }
  });

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
  ];
  for (const [message, changes] of cases) {
    writeFileSync(join(scratch, 'tokenizer.json'), JSON.stringify({ ...original, ...changes }));
    expect(() => loadTokenizer(scratch)).toThrow(message);
  }
  expect(() => loadTokenizer(join(vectors, 'qwen3-tiny'))).toThrow(/tokenizer.json is missing/);
  expect(() => loadTokenizer(join(vectors, 'nowhere'))).toThrow(/no such folder/);
});
