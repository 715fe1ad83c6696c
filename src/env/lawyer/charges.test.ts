import { expect, it } from 'vitest';
import { chargesNamed } from './charges.ts';

it('charges are those at the end of the question', () => {
  expect(chargesNamed('事实:甲……\r\n罪名:盗窃;引诱、教唆、欺骗他人吸毒。')).toEqual([
    '盗窃',
    '引诱、教唆、欺骗他人吸毒',
  ]);
  expect(chargesNamed('甲的罪名：受贿\n是否成立？')).toEqual([]);
  for (const question of ['', '罪名:', '罪名:。;', '怎么判']) expect(chargesNamed(question)).toEqual([]);
});
