import { expect, it } from 'vitest';
import { createEndpoint } from './endpoint.ts';
import { keyHider } from './hide-key.ts';
import { json, serve } from './test-support.ts';

it('replaces the key as it is and as JSON writes it, and nothing where there is none', () => {
  const key = 'sk-"a\\b$&-12';
  const hide = keyHider(key);
  expect(hide(`x ${key} y ${key}`)).toBe('x <key> y <key>');
  expect(hide(JSON.stringify({ key }))).toBe('{"key":"<key>"}');
  for (const none of [undefined, '', ' ', 'k']) expect(keyHider(none)('a key')).toBe('a key');
});

it('no failure of an endpoint tells the key, wherever the server puts it', async () => {
  const key = 'sk-very-secret-0123456789';
  for (const [status, fill] of [
    [401, 0],
    // Where the message is cut.
    [500, 485],
    [503, 478],
    [404, 0],
  ] as const) {
    const { url } = await serve((_, __, response) => {
      json(response, { error: { message: `${'x'.repeat(fill)}${key}`, param: null, code: status } }, status);
    });
    const endpoint = createEndpoint({ baseUrl: url, apiKey: key, deadlineMs: 2_000, maxConcurrent: 1 });
    const calls = [endpoint.listModels(), endpoint.unloadAdapter('a'), endpoint.version()];
    for (const error of (await Promise.allSettled(calls)).map(
      (end) => (end as PromiseRejectedResult).reason,
    )) {
      expect(error.message).toMatch(/x{400}|<key>/);
      expect(error.message).not.toContain(key.slice(0, 7));
      expect(error.stack).not.toContain(key.slice(0, 7));
    }
  }
});
