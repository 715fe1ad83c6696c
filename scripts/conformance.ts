/**
 * `npm run conformance`: lexpo against PyTorch, transformers, PEFT and TRL, live. Prints a table of every check
 * with the largest error and writes it to docs/conformance.md; exit code 1 when one fails. Skips with one line
 * where there is no Python. On first use PyTorch and the others go into .venv (python/environment.ts).
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { UserError } from '../src/base/errors.ts';
import { type Area, markdownTable, passes, textTable } from './conformance/check.ts';
import { exportChecks } from './conformance/exports.ts';
import { otherLearners } from './conformance/learners.ts';
import { lossChecks } from './conformance/losses.ts';
import { modelChecks } from './conformance/models.ts';
import { qwen3Tokenizer } from './conformance/qwen3-tokenizer.ts';
import { tokenizerChecks } from './conformance/tokenizers.ts';
import { pythonEnvironment } from './python/environment.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const REPORT = join(ROOT, 'docs/conformance.md');

async function conformance(): Promise<void> {
  const environment = pythonEnvironment(console.log);
  if ('skip' in environment) {
    console.log(`conformance skipped: ${environment.skip}`);
    return;
  }
  const { python, versions } = environment;
  const scratch = mkdtempSync(join(tmpdir(), 'lexpo-conformance-'));
  const areas: Area[] = [];
  const show = (...more: Area[]): void => {
    for (const area of more) console.log(`${textTable(area)}\n`);
    areas.push(...more);
  };
  try {
    show(...(await modelChecks(python, scratch)));
    show(await exportChecks(python, scratch));
    show(...(await lossChecks(python, scratch, otherLearners(python))));
    const qwen3 = qwen3Tokenizer(join(ROOT, '.venv'), console.log);
    show(tokenizerChecks(python, scratch, qwen3 ? { "Qwen3's own": qwen3 } : {}));
  } finally {
    rmSync(scratch, { recursive: true });
  }
  const all = areas.flatMap(({ checks }) => checks);
  const failed = all.filter((check) => !passes(check)).length;
  const result = `${all.length - failed} of ${all.length} checks pass`;
  writeFileSync(REPORT, report(areas, result, { node: process.version, ...ours(), ...versions }));
  console.log(`${result}; written to docs/conformance.md`);
  if (failed > 0) process.exitCode = 1;
}

const ours = (): Record<string, string> => {
  const require = createRequire(import.meta.url);
  const version = (name: string): string => (require(`${name}/package.json`) as { version: string }).version;
  return { 'onnxruntime-node': version('onnxruntime-node') };
};

function report(areas: readonly Area[], result: string, versions: Record<string, string>): string {
  const named = Object.entries(versions).map(([name, version]) => `${name} ${version}`);
  return `# Conformance

What lexpo computes, held against PyTorch, transformers, PEFT and TRL on the same inputs. Written by
\`npm run conformance\` (scripts/conformance.ts), which installs them into \`.venv\` on first use; \`LEXPO_PYTHON\`
names a Python that has them already.

**${result}.** ${named.join(', ')}; CPU, float32.

The largest error of values (log-probabilities, entropies) and of losses is in nats; of tensors it is the largest
difference relative to the tensor's largest entry. Gradients are of token trees on our side and of one sample at a
time on theirs.

Where the policy update differs from TRL's by intent, and so is compared without:

- A token that the sampler correction masks leaves our denominators and the KL term; in TRL it stays there.
- The entropy bonus is a mean over tokens here, and a mean over micro-batches there.
- TRL multiplies the KL term by the differentiable ratio unless \`use_bias_correction_kl\` is off, which changes the
  gradient even on-policy. Here KL is the GRPO paper's (k3), without it.

${areas.map(markdownTable).join('\n')}`;
}

try {
  await conformance();
} catch (error) {
  if (!(error instanceof UserError)) throw error;
  console.error(`conformance: ${error.message}`);
  process.exitCode = 1;
}
