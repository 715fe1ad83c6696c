/** Redis with TLS and a password, whose certificate an authority of the test's own signed. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { UserError } from '../../src/base/errors.ts';
import { openRedis } from '../../src/rollout/pool/redis-connection.ts';
import { freePort } from '../free-port.ts';
import { hasRedis, type RedisServer, startRedis } from './redis-server.ts';

/** Version 3 signs a certificate in one command. */
const hasOpenssl = /^OpenSSL [3-9]/.test(
  spawnSync('openssl', ['version'], { encoding: 'utf8' }).stdout ?? '',
);
if (hasRedis && !hasOpenssl) console.warn('tests of TLS are skipped: openssl 3 is not installed');

let folder = '';
let server: RedisServer | null = null;
let port = 0;
const at = (name: string): string => join(folder, name);

describe.skipIf(!hasRedis || !hasOpenssl)('Redis with TLS', () => {
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'lexpo-tls-'));
    const openssl = (...args: string[]): void => {
      const { status, stderr } = spawnSync('openssl', args, { cwd: folder, encoding: 'utf8' });
      if (status !== 0) throw new Error(stderr);
    };
    const request = ['req', '-newkey', 'rsa:2048', '-nodes', '-days', '2'];
    openssl(...request, '-x509', '-keyout', 'ca.key', '-out', 'ca.pem', '-subj', '/CN=test authority');
    // A certificate for this address, signed by the authority.
    openssl(
      ...request,
      ...['-x509', '-CA', 'ca.pem', '-CAkey', 'ca.key', '-keyout', 'redis.key', '-out', 'redis.pem'],
      ...['-subj', '/CN=127.0.0.1', '-addext', 'subjectAltName=IP:127.0.0.1'],
    );
    port = await freePort();
    const files = ['--tls-cert-file', at('redis.pem'), '--tls-key-file', at('redis.key')];
    const tls = ['--tls-port', String(port), ...files, '--tls-ca-cert-file', at('ca.pem')];
    server = await startRedis([...tls, '--tls-auth-clients', 'no', '--requirepass', 'hunter2']);
  });
  afterAll(async () => {
    await server?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  const open = (address: object, say: (line: string) => void = () => {}) =>
    openRedis(
      { url: `rediss://127.0.0.1:${port}`, prefix: 'p', password: 'hunter2', ...address },
      { withinMs: 3_000, say },
    );
  const refusal = async (address: object): Promise<UserError> => {
    const error = await open(address).then(
      (redis) => redis.disconnect(),
      (thrown: unknown) => thrown,
    );
    expect(error).toBeInstanceOf(UserError);
    return error as UserError;
  };

  it('answers with the authority and the password', async () => {
    const redis = await open({ ca: readFileSync(at('ca.pem'), 'utf8') });
    expect(await redis.ping()).toBe('PONG');
    redis.disconnect();
  });

  it('is refused without the authority, with another one, and with a wrong password', async () => {
    expect((await refusal({})).message).toMatch(/TLS fails \(.*certificate.*\)[^\n]*\n?.*caFile/s);
    const other = await refusal({ ca: readFileSync(at('redis.pem'), 'utf8') });
    expect(other.message).toMatch(/TLS fails/);
    const wrong = await refusal({ ca: readFileSync(at('ca.pem'), 'utf8'), password: 'hunter3' });
    expect(wrong.message).toMatch(/refuses user or password/);
    expect(wrong.message).not.toContain('hunter');
  });

  it('that is lost is told once, commands wait, and its return is told', async () => {
    const said: string[] = [];
    const redis = await open({ ca: readFileSync(at('ca.pem'), 'utf8') }, (line) => void said.push(line));
    await redis.set('p:kept', '1');
    const restarted = server!.restart({ downMs: 300 });
    await restarted;
    expect(await redis.get('p:kept')).toBe('1');
    redis.disconnect();
    expect(said).toEqual([
      expect.stringMatching(/the connection is lost; waiting for it$/),
      expect.stringMatching(/is back$/),
    ]);
  });
});
