import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { UserError } from '../base/errors.ts';
import { temporaryFolder } from '../base/test-support.ts';
import { corpusOf, loadCorpus } from './corpus.ts';

const folder = temporaryFolder();

let files = 0;
function file(content: string | Uint8Array, ending = '.jsonl'): string {
  const path = join(folder, `${files++}${ending}`);
  writeFileSync(path, content);
  return path;
}

const line = (id: string, text = '条文') => JSON.stringify({ id, title: `标题${id}`, law: '某法', text });

async function message(path: string): Promise<string> {
  try {
    await loadCorpus(path);
  } catch (error) {
    expect(error).toBeInstanceOf(UserError);
    return (error as Error).message;
  }
  throw new Error(`${path} was accepted`);
}

describe('what is read', () => {
  test('articles in file order, by id, further fields left out, laws optional', async () => {
    const extra = JSON.stringify({ id: 'b', title: '', text: 'x', article: '第一条', law: null });
    const corpus = await loadCorpus(file(`${line('c')}\n${extra}\n\n`));
    expect(corpus.articles).toEqual([
      { id: 'c', title: '标题c', law: '某法', text: '条文' },
      { id: 'b', title: '', text: 'x' },
    ]);
    expect(corpus.byId.get('b')).toBe(corpus.articles[1]);
  });

  test('gzip, a byte order mark, CRLF and a missing last line feed change nothing', async () => {
    const plain = await loadCorpus(file(`${line('a')}\n${line('b')}\n`));
    const gz = await loadCorpus(file(gzipSync(`\ufeff${line('a')}\r\n${line('b')}`), '.jsonl.gz'));
    expect(gz).toEqual(plain);
  });

  test('a line separator inside a string does not end the line', async () => {
    const corpus = await loadCorpus(file(`{"id":"a","title":"t","text":"one\u2028two"}\n`));
    expect(corpus.articles[0]!.text).toBe('one\u2028two');
  });

  test('lines longer than the read buffer, and characters cut by its border, arrive whole', async () => {
    const long = '法'.repeat(300_001);
    const corpus = await loadCorpus(file(`${line('a', long)}\n${line('b', `x${long}`)}\n`));
    expect(corpus.articles.map(({ text }) => text)).toEqual([long, `x${long}`]);
  });

  test('the hash sees every field and the order, not the file', async () => {
    const a = { id: 'a', title: 't', text: 'x', law: 'l' };
    const b = { id: 'b', title: 't', text: 'x' };
    const { hash } = corpusOf([a, b]);
    expect(hash).toMatch(/^[0-9a-f]{64}$/);
    expect((await loadCorpus(file([a, b].map((o) => JSON.stringify(o)).join('\n')))).hash).toBe(hash);
    const changed = [
      [b, a],
      [{ ...a, id: 'c' }, b],
      [{ ...a, title: 'u' }, b],
      [{ ...a, text: 'y' }, b],
      [{ id: 'a', title: 't', text: 'x' }, b],
      [a],
    ];
    for (const articles of changed) expect(corpusOf(articles).hash).not.toBe(hash);
  });
});

describe('what is refused, with file and line', () => {
  test('one problem', async () => {
    const cut = file(`${line('a')}\n{"id": "b", "title"\n`);
    expect(await message(cut)).toMatch(`${cut}:2: not valid JSON`);
    const missing = file('{"id": "a", "title": "t"}\n');
    expect(await message(missing)).toMatch(`${missing}:1: "text"`);
    const duplicate = file(`${line('a')}\n\n${line('a')}\n`);
    expect(await message(duplicate)).toMatch(`${duplicate}:3: duplicate id "a", first on line 1`);
    const empty = file(`${line('a', ' \n')}\n`);
    expect(await message(empty)).toMatch(`${empty}:1: "text": the text must not be empty`);
    expect(await message(file('[1]\n'))).toMatch(/:1: .*expected object/);
    expect(await message(file(Buffer.from('{"id":"a","title":"\xff","text":"x"}\n', 'latin1')))).toMatch(
      /:1: not valid UTF-8\n.*save the file as UTF-8/,
    );
  });

  test('several at once, ten at most', async () => {
    const three = await message(file(`{\n${line('a')}\n{"id":7,"title":"t","text":"x"}\n${line('a')}\n`));
    expect(three).toMatch(/3 problems\n {2}line 1: .*\n {2}line 3: "id".*\n {2}line 4: duplicate id/);
    const many = await message(file('{\n'.repeat(50)));
    expect(many).toMatch(/10 problems, reading stopped/);
    expect(many.match(/line \d+:/g)).toHaveLength(10);
  });

  test('a file without articles, without existence, of the wrong kind', async () => {
    expect(await message(file('\n\n'))).toMatch(/no articles/);
    expect(await message(join(folder, 'nowhere.jsonl'))).toMatch(/nowhere.jsonl: file not found/);
    expect(await message(join(folder, 'nowhere.jsonl.gz'))).toMatch(/nowhere.jsonl.gz: file not found/);
    expect(await message(folder)).toMatch(/is a folder/);
    expect(await message(join(file(line('a')), 'x.jsonl'))).toMatch(/x.jsonl: cannot be read \(ENOTDIR/);
    expect(await message(file(line('a'), '.jsonl.gz'))).toMatch(/gzip data is damaged/);
    const whole = gzipSync(`${Array.from({ length: 999 }, (_, i) => line(`a${i}`)).join('\n')}\n`);
    expect(await message(file(whole.subarray(0, 900), '.jsonl.gz'))).toMatch(
      /gzip data is damaged or cut off/,
    );
  });
});
