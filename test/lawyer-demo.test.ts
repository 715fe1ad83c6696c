/** Legal-R1 on the demo, from the command line: synthesize, sft, GRPO from it, and what all that leaves. */
import { execFile, execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { gunzipSync } from 'node:zlib';
import { beforeAll, describe, expect, it } from 'vitest';
import { temporaryFolder } from '../src/base/test-support.ts';
import { LAWYER_TERMS } from '../src/reward/lawyer/ledger.ts';
import { trajectorySchema } from '../src/rollout/trajectory.ts';
import { readDemonstrations } from '../src/trainer/sft/demonstration-file.ts';

const scratch = temporaryFolder();
// Builds the command line where that was not done yet: minutes on a busy machine.
beforeAll(
  () => void execFileSync(process.execPath, ['scripts/ensure-ready.mjs'], { stdio: 'ignore' }),
  300_000,
);

const lines = (path: string): string[] => readFileSync(path, 'utf8').trim().split('\n');

/** A part of the demo's questions as a file. */
function part(name: string, count: number): string {
  const path = join(scratch, name);
  writeFileSync(path, `${lines(join('data/demo', name)).slice(0, count).join('\n')}\n`);
  return path;
}

const run = promisify(execFile);
/** `lexpo <command> configs/legal-r1-demo.yaml` on a small part of the demo; what it printed, or how it failed. */
async function lexpo(command: string, settings: string[], ...more: string[]) {
  const shared = [
    `run.dir=${scratch}`,
    `data.train=${part('train.jsonl', 40)}`,
    `data.validation=${part('validation.jsonl', 24)}`,
  ];
  const sets = [...shared, ...settings].flatMap((set) => ['--set', set]);
  const args = ['bin/lexpo.js', command, 'configs/legal-r1-demo.yaml', ...sets, ...more];
  return run(process.execPath, args).then(
    ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
    (error: { code: number; stdout: string; stderr: string }) => error,
  );
}

interface Figures {
  answerAccuracy: number;
  evidenceRecall: number;
  invalidRate: number;
}

describe('the Lawyer on the demo', () => {
  const demonstrations = join(scratch, 'demonstrations.jsonl.gz');
  const start = join(scratch, 'sft-adapter');

  it('synthesizes demonstrations: the right and clean ones, with a report', {
    timeout: 120_000,
  }, async () => {
    const { code, stdout, stderr } = await lexpo(
      'synthesize',
      [],
      '--out',
      demonstrations,
      '--accept',
      '0.3',
    );
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).toContain('teacher: a player that knows the gold (stand-in)');
    const records = await readDemonstrations(demonstrations);
    const report = JSON.parse(readFileSync(`${demonstrations}.report.json`, 'utf8'));
    expect(report.episodes).toMatchObject({ played: 80, kept: records.length, failed: 0, invalid: 0 });
    expect(report.episodes.wrong + records.length).toBe(80);
    expect(records.length).toBeGreaterThan(10);
    expect(report.contamination.sources.map((one: { source: string }) => one.source)).toEqual([
      'training questions',
      'precedents',
      "the teacher's calls",
      'precedents shown to it',
    ]);
    expect(records.every(({ termination }) => termination.kind !== 'invalid')).toBe(true);
    const again = await lexpo('synthesize', [], '--out', demonstrations);
    expect([again.code, again.stderr]).toEqual([1, expect.stringContaining('is there already')]);
  });

  it('trains an adapter on them, and GRPO from it, with every term in the record', {
    timeout: 240_000,
  }, async () => {
    const sft = ['sft.share=1', 'sft.epochs=6', `sft.demonstrations=${demonstrations}`];
    const taught = await lexpo('sft', sft, '--out', start);
    expect([taught.code, taught.stderr]).toEqual([0, '']);
    expect(JSON.parse(readFileSync(join(start, 'sft.json'), 'utf8'))).toMatchObject({ demonstrations });

    const grpo = [
      'sft=null',
      `lora.start=${start}`,
      'train.steps=2',
      'rollout.queriesPerStep=4',
      'rollout.groupSize=4',
      'eval.bootstrap=100',
    ];
    const trained = await lexpo('train', grpo);
    expect([trained.code, trained.stderr]).toEqual([0, '']);
    expect(trained.stdout).toContain('note: no assistants.judge: answers are by votes (stand-in)');
    const folder = join(scratch, 'legal-r1-demo');
    const summary = JSON.parse(readFileSync(join(folder, 'summary.json'), 'utf8'));
    for (const figures of [summary.eval.before, summary.eval.after] as Figures[]) {
      expect(figures.answerAccuracy).toBeGreaterThanOrEqual(0);
      expect(figures.evidenceRecall).toBeGreaterThan(0);
      expect(figures.invalidRate).toBeLessThan(0.5);
    }
    expect(summary.standIns).toHaveLength(4);
    const [first] = lines(join(folder, 'metrics.jsonl'))
      .map((line) => JSON.parse(line))
      .filter((row) => row.step === 1);
    for (const name of LAWYER_TERMS.filter((term) => term !== 'invalid'))
      expect(Number.isFinite(first[`reward/${name}`])).toBe(true);

    const steps = join(folder, 'trajectories');
    expect(readdirSync(steps)).toHaveLength(2);
    const stored = gunzipSync(readFileSync(join(steps, 'step-000001.jsonl.gz')))
      .toString()
      .trim()
      .split('\n');
    expect(stored).toHaveLength(16);
    for (const line of stored) {
      const { ledger, calls, answer, termination } = trajectorySchema.parse(JSON.parse(line));
      expect(ledger.terms.map(({ name }) => name)).toEqual([...LAWYER_TERMS]);
      expect(calls.every(({ role }) => role === 'lawyer')).toBe(true);
      expect(answer === null).toBe(termination.kind === 'invalid');
    }
    const shown = await run(process.execPath, ['bin/lexpo.js', 'eval', folder]);
    expect(shown.stdout).toContain('evidence  answers');
  });

  it('refuses a reward of another environment, and an answer that nobody can score', async () => {
    const wrong = await lexpo('train', ['reward={kind: malr}']);
    expect([wrong.code, wrong.stderr]).toEqual([
      1,
      expect.stringContaining('reward.kind: must be lawyer, as env.kind is'),
    ]);
    mkdirSync(join(scratch, 'text'));
    const question = {
      ...JSON.parse(lines('data/demo/train.jsonl')[0]!),
      answer: { kind: 'text', text: 'x' },
    };
    const path = join(scratch, 'text', 'train.jsonl');
    writeFileSync(path, `${JSON.stringify(question)}\n`);
    const free = await lexpo('synthesize', [`data.train=${path}`], '--out', join(scratch, 'text', 'd.jsonl'));
    expect([free.code, free.stderr]).toEqual([1, expect.stringContaining('assistants.critic')]);
  });
});
