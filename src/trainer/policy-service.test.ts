import { afterEach, expect, it, vi } from 'vitest';
import type { Config } from '../config/schema.ts';
import { endpointKey } from './policy-service.ts';

const NAME = 'LEXPO_TEST_POLICY_KEY';
const config = { endpoint: { kind: 'vllm', apiKeyEnv: NAME } } as Pick<Config, 'endpoint'>;
afterEach(() => vi.unstubAllEnvs());

it('the key of the servers is what the variable holds', () => {
  vi.stubEnv(NAME, `sk-"1'~!`);
  expect(endpointKey(config)).toBe(`sk-"1'~!`);
});

it.each(['abc\r', 'abc\ndef', ' abc', 'first second', '密钥', '\u0000', ' '])(
  'a key that no header can carry (%j) is told by the name of its variable alone',
  (key) => {
    vi.stubEnv(NAME, key);
    let error: unknown;
    try {
      endpointKey(config);
    } catch (thrown) {
      error = thrown;
    }
    expect(error).toMatchObject({ name: 'UserError', where: `environment variable ${NAME}` });
    if (key.trim().length > 1) expect((error as Error).message).not.toContain(key.trim());
  },
);
