/** `lexpo doctor`, a test for each thing that may be wrong with the learner and the policy servers. */
import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { freePort } from '../../test/free-port.ts';
import { type PolicyServer, startServer } from '../serve/server.ts';
import { ABSENT, examine, file, ownModel, TINY } from './test-support-doctor.ts';

let servers: PolicyServer[] = [];
afterEach(async () => {
  await Promise.all(servers.map((server) => server.close()));
  servers = [];
});

describe('the learner', () => {
  /** A Python of the test's own. */
  const python = (...lines: string[]) => {
    writeFileSync(file('python'), `#!/bin/sh\n${lines.join('\n')}\n`);
    chmodSync(file('python'), 0o755);
    return file('python');
  };
  const torch = (path: string, more = {}) => ({
    ...ABSENT,
    learner: { kind: 'torch', python: path, ...more },
  });

  test('torch: a Python that is absent, lacks a package, or breaks', async () => {
    const absent = await examine(torch('no-such-python'));
    expect(absent.statuses).toMatchObject({ learner: 'fail', disk: 'ok' });
    expect(absent.text('learner')).toMatch(
      /no-such-python: cannot be started \(ENOENT\) → .*learner\.python/,
    );
    const bare = python(`echo "ModuleNotFoundError: No module named 'torch'" >&2`, 'exit 1');
    expect((await examine(torch(bare))).text('learner')).toMatch(/has no torch → pip install torch/);
    const broken = python('echo Traceback >&2', 'echo "OSError: libcudart.so.12" >&2', 'exit 1');
    expect((await examine(torch(broken))).text('learner')).toMatch(
      /does not import torch: OSError: libcudart/,
    );
  });

  test('torch: versions and GPUs, and too few of them', async () => {
    const one = python(`echo '["2.9.0", "4.57.0", 1]'`);
    const fine = await examine(torch(one));
    expect(fine.statuses.learner).toBe('ok');
    expect(fine.text('learner')).toMatch(/torch 2\.9\.0, transformers 4\.57\.0, 1 GPU/);
    const few = await examine(torch(one, { device: 'cuda', processes: 2 }));
    expect(few.text('learner')).toMatch(/2 GPUs are wanted and PyTorch sees 1 → .*nvidia-smi/);
  });

  test('tfjs where it is not installed, or finds no GPU', async () => {
    const { statuses, text } = await examine({ ...ABSENT, learner: { kind: 'tfjs' } });
    if (statuses.learner === 'fail') expect(text('learner')).toMatch(/tfjs-node-gpu.*learner\.kind onnx/);
    else expect(statuses.learner).toBe('ok');
  });
});

describe('servers elsewhere', () => {
  const vllm = (urls: string[], more = {}) => ({
    endpoint: { kind: 'vllm', replicas: urls.map((url) => ({ url })), proofTolerance: 0.002, ...more },
  });
  async function serve(modelFolder: string): Promise<PolicyServer> {
    const server = await startServer({ modelFolder, adapterRoot: file(''), servedModelName: 'base' });
    servers.push(server);
    return server;
  }
  const listed = async ({ url }: PolicyServer): Promise<string[]> => {
    const { data } = (await (await fetch(`${url}/v1/models`)).json()) as { data: { id: string }[] };
    return data.map(({ id }) => id);
  };

  test('an adapter goes to each of them and is taken away again', async () => {
    const both = [await serve(TINY), await serve(TINY)];
    const { code, statuses, text } = await examine(vllm(both.map(({ url }) => url)));
    expect(text('adapter round trip')).toMatch(/loaded and proved on 2 replicas/);
    expect(statuses).toMatchObject({ endpoint: 'ok', 'adapter round trip': 'ok' });
    expect(code).toBe(0);
    expect(await Promise.all(both.map(listed))).toEqual([['base'], ['base']]);
    expect(existsSync(file('runs'))).toBe(false);
  });

  test('one that is not there is named, and nothing is loaded anywhere', async () => {
    const dead = `http://127.0.0.1:${await freePort()}`;
    const { url } = await serve(TINY);
    const { statuses, text } = await examine(vllm([url, dead]), ['rollout.deadlineMs=2000']);
    expect(statuses).toMatchObject({ endpoint: 'fail', 'adapter round trip': 'skip' });
    expect(text('endpoint')).toContain(`${dead}: does not answer`);
    expect(await listed(servers[0]!)).toEqual(['base']);
  });

  test('a key whose variable is not set', async () => {
    const { text } = await examine(vllm(['http://127.0.0.1:9'], { apiKeyEnv: 'LEXPO_NO_SUCH_KEY' }));
    expect(text('endpoint')).toMatch(/variable LEXPO_NO_SUCH_KEY: is not set/);
  });

  test('another base model than the learner has passes the capability check and fails the proof', async () => {
    const path = ownModel();
    const bytes = readFileSync(join(path, 'model.safetensors'));
    // values of the last tensor of the file, in place
    for (let at = bytes.length - 4000; at < bytes.length; at += 4)
      bytes.writeFloatLE(bytes.readFloatLE(at) + 0.5, at);
    writeFileSync(join(path, 'model.safetensors'), bytes);
    const { url } = await serve(path);
    const { statuses, text } = await examine(vllm([url]));
    expect(statuses).toMatchObject({ endpoint: 'ok', 'adapter round trip': 'fail' });
    expect(text('adapter round trip')).toMatch(/differ from the learner's by/);
    expect(await listed(servers[0]!)).toEqual(['base']);
    expect(existsSync(file('runs'))).toBe(false);
  });
});
