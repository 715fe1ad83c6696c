import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { temporaryFolder } from '../base/test-support.ts';
import { checkAssistant, checkPrecedents, configuredAssistants } from '../cli/doctor/assistants-check.ts';
import { parseConfig } from '../config/load.ts';
import { openAssistant } from './assistants.ts';
import { teacherOf } from './sft/teacher.ts';

const scratch = temporaryFolder();
let asked = 0;
const server = createServer((_, response) => {
  asked++;
  const message = { role: 'assistant', content: 'ready' };
  response.setHeader('content-type', 'application/json');
  response.end(JSON.stringify({ choices: [{ index: 0, finish_reason: 'stop', message }] }));
});
let url = '';
beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => void server.close());

const configOf = (assistants: object, name: string) =>
  parseConfig(
    'run: {name: a}\nmodel: {path: m}\ndata: {corpus: c, train: t, validation: v}\ntrain: {steps: 1}\n',
    'x.yaml',
    { set: [`run.dir=${join(scratch, name)}`, `assistants=${JSON.stringify(assistants)}`] },
  );
const messages = [{ role: 'user' as const, content: 'q' }];
const quiet = (): void => {};
const call = { maxTokens: 4, temperature: 0 };

describe('openAssistant', () => {
  it('keeps answers beside the runs, or in the folder named; a teacher that samples, each sample once', async () => {
    const judge = { url, model: 'm' };
    for (const more of [{}, { cache: join(scratch, 'kept') }]) {
      const config = configOf({ judge, ...more }, 'cached');
      asked = 0;
      for (let i = 0; i < 3; i++)
        expect(
          await openAssistant(config, 'judge', config.assistants.judge!, quiet).chat(messages, call),
        ).toBe('ready');
      expect(asked).toBe(1);
    }
    const config = configOf({ teacher: { ...judge, temperature: 0.7 } }, 'teacher');
    const { chat, name, sampling } = teacherOf(config, quiet);
    asked = 0;
    for (const sample of ['1/q/0/0', '1/q/1/0', '1/q/0/0', '1/q/2/0'])
      await chat!.chat(messages, { ...call, sample });
    expect([asked, name, sampling.temperature]).toEqual([3, `m at ${url}`, 0.7]);
  });

  it('wants the key that is named, whole', () => {
    const config = configOf({ judge: { url, model: 'm', apiKeyEnv: 'LEXPO_TEST_KEY' } }, 'key');
    const open = () => openAssistant(config, 'judge', config.assistants.judge!, quiet);
    delete process.env.LEXPO_TEST_KEY;
    expect(open).toThrow(/LEXPO_TEST_KEY: is not set/);
    process.env.LEXPO_TEST_KEY = 'key with blanks\n';
    expect(open).toThrow(/holds a character that no key has/);
    process.env.LEXPO_TEST_KEY = 'sk-1';
    expect(open).not.toThrow();
    delete process.env.LEXPO_TEST_KEY;
  });

  it('is a stand-in that says so where no teacher is named', () => {
    expect(teacherOf(configOf({}, 'none'), quiet)).toMatchObject({
      chat: null,
      name: expect.stringContaining('stand-in'),
    });
  });
});

describe('lexpo doctor', () => {
  it('asks each configured model for a word, past what is kept, and says which one fails', async () => {
    const down = { url: 'http://127.0.0.1:9', model: 'm', deadlineMs: 500 };
    const config = configOf({ judge: { url, model: 'm' }, condenser: down }, 'doctor');
    expect(configuredAssistants(config).map(([role]) => role)).toEqual(['judge', 'condenser']);
    const { judge, condenser } = config.assistants;
    asked = 0;
    for (let i = 0; i < 2; i++)
      expect(await checkAssistant('judge', judge!)).toMatchObject({ detail: `m at ${url} answers` });
    expect(asked).toBe(2);
    await expect(checkAssistant('condenser', condenser!)).rejects.toThrow(
      /assistants.condenser: m at http:\/\/127.0.0.1:9/,
    );
    expect((await checkPrecedents('data/demo/precedents.jsonl')).detail).toContain('a sentence read of 88');
  });
});
