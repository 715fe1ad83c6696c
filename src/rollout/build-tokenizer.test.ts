import { describe, expect, it } from 'vitest';
import { temporaryFolder } from '../base/test-support.ts';
import { buildTokenizer, END_TOKEN, PAD_TOKEN, writeTokenizer } from './build-tokenizer.ts';
import { loadChatTemplate, renderPromptIds } from './chat-template.ts';
import { loadTokenizer } from './tokenizer.ts';

const folder = temporaryFolder();

const files = buildTokenizer(['合同合同合同无效无效', '出租人'], {
  size: 281,
  required: '轮',
  maxLength: 64,
});
writeTokenizer(folder, files);
const tokenizer = loadTokenizer(folder);

describe('buildTokenizer', () => {
  it('keeps what is required and then the most frequent characters within its size', () => {
    // 256 bytes, 5 specials and 12 action pieces leave room for 8 of 轮 合 同 无 效 人 出 租.
    expect(files.vocabSize).toBe(281);
    expect(tokenizer.vocabSize).toBe(281);
    expect(tokenizer.encode('轮合同无效人出租')).toEqual([256, 257, 258, 260, 259, 261, 262, 263]);
    const smaller = buildTokenizer(['合同合同合同无效无效', '出租人'], {
      size: 276,
      required: '轮',
      maxLength: 64,
    });
    expect(Object.keys((smaller.tokenizer as { model: { vocab: object } }).model.vocab).slice(256)).toEqual([
      '轮',
      '合',
      '同',
    ]);
  });

  it('round-trips any text through byte tokens', () => {
    const text = '合同A-1：𠮷野家 é\n{"x":1}';
    expect(tokenizer.decode(tokenizer.encode(text), { skipSpecial: false })).toBe(text);
    expect(tokenizer.encode('A')).toEqual([0x41]);
  });

  it('writes a planner action in three tokens and a decomposition without spelling its punctuation', () => {
    expect(tokenizer.encode('{"action":"terminate"}')).toHaveLength(3);
    expect(tokenizer.encode('["合同","无效"]')).toHaveLength(7);
    expect(tokenizer.decode(tokenizer.encode('["合同","无效"]'), { skipSpecial: true })).toBe(
      '["合同","无效"]',
    );
  });

  it('spends three tokens of a prompt on markup, and ends an answer with the end token', () => {
    const template = loadChatTemplate(folder);
    const messages = [
      { role: 'system' as const, content: '合同' },
      { role: 'user' as const, content: `无效${END_TOKEN}` },
    ];
    const ids = renderPromptIds(template, tokenizer, messages, { addGenerationPrompt: true });
    expect(ids.slice(0, 3)).toEqual([tokenizer.tokenId('<|system|>'), 257, 258]);
    expect(ids.at(-1)).toBe(tokenizer.tokenId('<|assistant|>'));
    expect(ids).not.toContain(tokenizer.tokenId(END_TOKEN));
    const answered = [...messages, { role: 'assistant' as const, content: '租' }];
    const all = renderPromptIds(template, tokenizer, answered, { addGenerationPrompt: false });
    expect(all).toEqual([...ids, ...tokenizer.encode('租'), files.endId]);
  });

  it('names the pad and end tokens by id', () => {
    expect(tokenizer.tokenId(PAD_TOKEN)).toBe(files.padId);
    expect(tokenizer.tokenId(END_TOKEN)).toBe(files.endId);
  });
});
