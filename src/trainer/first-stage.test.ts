import { readdirSync, truncateSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { temporaryFolder } from '../base/test-support.ts';
import { parseConfig } from '../config/load.ts';
import { corpusOf } from '../env/corpus.ts';
import { createBm25Retriever } from '../env/retrieval/bm25.ts';
import { firstStage } from './first-stage.ts';

const scratch = temporaryFolder();
/** Embeds by two topics, and counts the texts. */
let embedded = 0;
const server = createServer(async (request, response) => {
  let text = '';
  for await (const chunk of request) text += chunk;
  const { input } = JSON.parse(text) as { input: string[] };
  embedded += input.length;
  const data = input.map((one, index) => ({
    index,
    embedding: [/工资|劳动/.test(one) ? 1 : 0, /房|租/.test(one) ? 1 : 0],
  }));
  response.setHeader('content-type', 'application/json');
  response.end(JSON.stringify({ data }));
});
let url = '';
beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => void server.close());

const told: string[] = [];
const say = (line: string): void => void told.push(line);

const corpus = corpusOf([
  { id: 'lease', title: '租赁', text: '承租人应当支付租金。' },
  { id: 'work', title: '劳动', text: '用人单位应当支付报酬。' },
]);
const lexical = createBm25Retriever(corpus, { k1: 1.5, b: 0.75, anchor: { original: 0, rewrite: 1 } });
const configOf = (embeddings: object | null) =>
  parseConfig(
    'run: {name: a}\nmodel: {path: m}\ndata: {corpus: c, train: t, validation: v}\ntrain: {steps: 1}\n',
    'x.yaml',
    {
      set: [`run.dir=${join(scratch, 'runs')}`, `retrieval.embeddings=${JSON.stringify(embeddings)}`],
    },
  );

it('is BM25 where no embeddings are named', () => {
  expect(firstStage(configOf(null), corpus, lexical, say)).toBe(lexical);
});

it('with embeddings finds what no word says; the vectors of the corpus are kept, and asked for anew with another model', async () => {
  const ask = async (model: string) => {
    const retriever = firstStage(configOf({ url, model, batch: 1 }), corpus, lexical, say);
    const hits = await retriever.search({ original: '', rewrite: '老板拖工资' }, 1);
    return hits.map(({ id }) => id);
  };
  expect(await ask('m')).toEqual(['work']);
  expect(embedded).toBe(3);
  expect(await ask('m')).toEqual(['work']);
  expect(embedded).toBe(4);
  await ask('other');
  expect(embedded).toBe(7);
  expect(told).toEqual([]);
  const kept = join(scratch, 'runs', '.assistants');
  for (const name of readdirSync(kept)) truncateSync(join(kept, name), 20);
  expect(await ask('m')).toEqual(['work']);
  expect(embedded).toBe(10);
  expect(told).toEqual([expect.stringContaining('holds no vectors')]);
});
