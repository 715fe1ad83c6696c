/**
 * lexpo beside an installed `@tensorflow/tfjs-node-gpu`: a copy of the build, with a package of that name that
 * holds TensorFlow.js and its plain JavaScript backend.
 */
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { beforeAll, expect, test } from 'vitest';
import { stream } from '../src/base/random.ts';
import { temporaryFolder } from '../src/base/test-support.ts';
import { onnxExecutor } from '../src/engine/onnx/session.ts';
import { tensorGap } from '../src/engine/test-support.ts';
import { createCore } from '../src/trainer/learner/core.ts';
import { randomPasses, stepOn, tinyOptions } from '../src/trainer/learner/test-support-tiny.ts';

const copy = temporaryFolder();
const tfjs = join(copy, 'node_modules', '@tensorflow', 'tfjs-node-gpu');
const { resolve: find } = createRequire(import.meta.url);

beforeAll(() => {
  execFileSync(process.execPath, ['scripts/ensure-ready.mjs'], { stdio: 'ignore' });
  cpSync('dist', join(copy, 'dist'), { recursive: true });
  cpSync('package.json', join(copy, 'package.json'));
  mkdirSync(tfjs, { recursive: true });
  for (const name of readdirSync('node_modules'))
    if (name !== '@tensorflow')
      symlinkSync(resolve('node_modules', name), join(copy, 'node_modules', name), 'junction');
  writeFileSync(join(tfjs, 'package.json'), JSON.stringify({ main: 'index.js', type: 'commonjs' }));
  // compiling comes first where `npm test` has not done it
}, 180_000);

const install = (source: string): void => writeFileSync(join(tfjs, 'index.js'), source);
const learnerOfCopy = (): Promise<typeof import('../src/trainer/learner/engine-learner.ts')> =>
  import(pathToFileURL(join(copy, 'dist', 'trainer', 'learner', 'engine-learner.js')).href);

test('the learner finds it, and trains in its thread as onnx does', async () => {
  const [core, backend] = ['core', 'backend-cpu'].map((name) => find(`@tensorflow/tfjs-${name}`));
  install(
    `module.exports = require(${JSON.stringify(core)});
     module.exports.env().set('IS_TEST', true);
     require(${JSON.stringify(backend)});`,
  );
  const { createTfjsLearner } = await learnerOfCopy();
  const learner = await createTfjsLearner(tinyOptions());
  const onnx = await createCore(tinyOptions(), onnxExecutor);
  const passes = randomPasses(stream(1, 'installed'));
  await stepOn(learner, passes);
  await stepOn(onnx, passes);
  const [got, want] = [await learner.state(), await onnx.state()];
  expect(tensorGap(got.adapter.tensors, want.adapter.tensors)).toBeLessThan(2e-5);
  expect(tensorGap(got.adapter.tensors, tinyOptions().start.adapter.tensors)).toBeGreaterThan(1e-3);
  await learner.close();
  await onnx.close();
});

test('one whose install script did not run is told apart from none', async () => {
  install("throw new Error('The Node.js native addon module (tfjs_binding.node) can not be found')");
  const { createTfjsLearner } = await learnerOfCopy();
  await expect(createTfjsLearner(tinyOptions())).rejects.toThrow(
    /tfjs-node-gpu: is installed, but does not work here: The Node\.js native addon[\s\S]*npm rebuild/,
  );
});
