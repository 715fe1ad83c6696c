/** Legal-R1 with every helper model at an endpoint: a scripted server plays teacher, judge, critic, condenser and reranker. */
import { execFile, execFileSync } from 'node:child_process';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { temporaryFolder } from '../src/base/test-support.ts';
import { readDemonstrations } from '../src/trainer/sft/demonstration-file.ts';

const scratch = temporaryFolder();
const run = promisify(execFile);
/** How often each was asked, by its model's name. */
const asked: Record<string, number> = {};
let judgeFails = false;

/** What a helper says; the teacher by how many messages went before. */
function reply(model: string, turns: number): string {
  switch (model) {
    case 'teacher':
      if (turns === 1)
        return `先查法条。\n${JSON.stringify({ action: 'STATUTE', query: '劳动合同 支付工资', intent: '要件' })}`;
      if (turns === 3) return JSON.stringify({ action: 'PRECEDENT', query: '劳动合同 工资', charges: [] });
      return '{"action":"STOP"}';
    case 'judge':
      return '依据如下。\n{"answer":"见依据","articles":["1"]}';
    case 'critic':
      return '{"accuracy":4,"support":3}';
    case 'reranker':
      return '{"best":[2,1]}';
    default:
      return '{"facts":"拖欠工资","court":"基层","outcome":"有罪","sentence":"拘役"}';
  }
}

const server = createServer(async (request, response) => {
  let body = '';
  for await (const chunk of request) body += chunk;
  const { model, messages } = JSON.parse(body) as {
    model: string;
    messages: { role: string; content: string }[];
  };
  asked[model] = (asked[model] ?? 0) + 1;
  response.setHeader('content-type', 'application/json');
  if (model === 'judge' && judgeFails) return void response.writeHead(400).end('{"error":{"message":"no"}}');
  const turns = messages.filter(({ role }) => role !== 'system').length;
  const message = { role: 'assistant', content: reply(model, turns) };
  response.end(JSON.stringify({ choices: [{ index: 0, finish_reason: 'stop', message }] }));
});
let url = '';
beforeAll(async () => {
  // Builds the command line where that was not done yet: minutes on a busy machine.
  execFileSync(process.execPath, ['scripts/ensure-ready.mjs'], { stdio: 'ignore' });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}, 300_000);
afterAll(() => void server.close());

const questions = readFileSync('data/demo/train.jsonl', 'utf8').split('\n').slice(0, 6);

const ROLES = ['teacher', 'judge', 'condenser', 'reranker'];

async function synthesize(out: string, lines = questions, roles = ROLES) {
  const train = join(scratch, 'train.jsonl');
  writeFileSync(train, `${lines.join('\n')}\n`);
  const sets = [
    `run.dir=${scratch}`,
    `data.train=${train}`,
    'env.prompts=zh',
    'env.evidenceChars=200',
    ...roles.map((role) => `assistants.${role}=${JSON.stringify({ url, model: role, retries: 0 })}`),
  ].flatMap((set) => ['--set', set]);
  const args = [
    'bin/lexpo.js',
    'synthesize',
    'configs/legal-r1-demo.yaml',
    ...sets,
    '--out',
    out,
    '--rollouts',
    '1',
    '--accept',
    '0',
  ];
  return run(process.execPath, args).then(
    ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
    (error: { code: number; stdout: string; stderr: string }) => error,
  );
}

describe('helper models at an endpoint', () => {
  it('play, rerank, condense and judge; their answers are kept, and asked for once', {
    timeout: 60_000,
  }, async () => {
    const out = join(scratch, 'a.jsonl');
    const { code, stdout, stderr } = await synthesize(out);
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).toContain(`teacher: teacher at ${url}`);
    const records = await readDemonstrations(out);
    expect(records).toHaveLength(6);
    for (const { calls, rounds, answer, teacher, termination } of records) {
      expect(calls.map(({ role }) => role)).toEqual(['lawyer', 'lawyer', 'lawyer']);
      expect(rounds.map(({ agent }) => agent)).toEqual(['STATUTE', 'PRECEDENT']);
      expect(rounds[0]!.evidence).toHaveLength(2);
      expect(rounds[1]!.evidence![0]!.text).toContain('基层，有罪，拘役。');
      expect(answer).toMatchObject({ by: `judge at ${url}`, articles: [rounds[0]!.evidence![0]!.id] });
      expect([teacher, termination.reason]).toEqual([`teacher at ${url}`, 'STOP']);
    }
    const first = { ...asked };
    expect(first.judge).toBe(6);
    expect((await synthesize(join(scratch, 'b.jsonl'))).code).toBe(0);
    expect(asked).toEqual(first);
    expect(await readDemonstrations(join(scratch, 'b.jsonl'))).toEqual(records);
  });

  it('judge the evidence of a question without gold, where a critic is named', {
    timeout: 60_000,
  }, async () => {
    const lines = questions.map((line) => {
      const { id, query } = JSON.parse(line);
      return JSON.stringify({ id, query, answer: { kind: 'text', text: '应当支付工资' } });
    });
    const refused = await synthesize(join(scratch, 'd.jsonl'), lines);
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('has no gold')]);
    const out = join(scratch, 'e.jsonl');
    const { code, stderr } = await synthesize(out, lines, [...ROLES, 'critic']);
    expect([code, stderr]).toEqual([0, '']);
    const records = await readDemonstrations(out);
    expect(records).toHaveLength(6);
    for (const { ledger } of records)
      expect(Object.fromEntries(ledger.terms.map(({ name, raw }) => [name, raw]))).toMatchObject({
        answerAccuracy: 1,
        evidenceGain: 2 / 3,
        queryQuality: 0,
      });
  });

  it('that fail make failed episodes, never wrong ones, whoever plays', { timeout: 60_000 }, async () => {
    judgeFails = true;
    rmSync(join(scratch, '.assistants'), { recursive: true });
    for (const roles of [ROLES, ['judge']]) {
      const { code, stderr } = await synthesize(join(scratch, 'c.jsonl'), questions, roles);
      expect(code).toBe(1);
      expect(stderr).toContain(`all 6 episodes failed, the last with: judge at ${url}: status 400`);
      expect(stderr).not.toContain('    at ');
    }
  });
});
