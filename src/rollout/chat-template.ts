/** A model's own chat template, rendered to token ids in which outside text stays text. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Template } from '@huggingface/jinja';
import { messageOf, UserError } from '../base/errors.ts';
import type { Message } from '../env/types.ts';
import { readModelJson, type TextTokenizer, tokenizerConfigSchema, tokenText } from './tokenizer.ts';

export interface ChatTemplate {
  /** The file it came from, for messages. */
  where: string;
  /** The Jinja source. */
  source: string;
  template: Template;
  /** What every rendering sees: `bos_token`, `eos_token` and so on, where the tokenizer has them. */
  variables: Record<string, string>;
}

export interface RenderOptions {
  /** Ends the prompt with the opening of the assistant's turn. */
  addGenerationPrompt: boolean;
  /** Extra variables of the template, such as `{ enable_thinking: false }`. */
  kwargs?: Record<string, unknown>;
}

/**
 * The template of a model folder: `chat_template.jinja`, else `chat_template` of tokenizer_config.json (of
 * several, the one named `default`). UserError when there is none or its Jinja does not parse.
 */
export function loadChatTemplate(folder: string): ChatTemplate {
  const config = readModelJson(tokenizerConfigSchema, folder, 'tokenizer_config.json') ?? {};
  const file = join(folder, 'chat_template.jinja');
  const inConfig = config.chat_template;
  const where = existsSync(file) ? file : join(folder, 'tokenizer_config.json');
  const source = existsSync(file)
    ? readFileSync(file, 'utf8')
    : typeof inConfig === 'string'
      ? inConfig
      : inConfig?.find((entry) => entry.name === 'default')?.template;
  if (source === undefined) {
    const what = 'no chat template: neither chat_template.jinja nor chat_template in tokenizer_config.json';
    throw new UserError(
      what,
      folder,
      "Use an instruction-tuned model, or add its family's chat_template.jinja.",
    );
  }
  const variables: Record<string, string> = {};
  for (const name of ['bos_token', 'eos_token', 'unk_token', 'pad_token'] as const) {
    const text = tokenText(config[name]);
    if (text !== undefined) variables[name] = text;
  }
  try {
    return { where, source, template: new Template(source), variables };
  } catch (error) {
    throw new UserError(`the chat template does not parse: ${messageOf(error)}`, where);
  }
}

function render(
  { template, variables, where }: ChatTemplate,
  messages: Message[],
  options: RenderOptions,
): string {
  try {
    return template.render({
      ...variables,
      ...options.kwargs,
      messages,
      add_generation_prompt: options.addGenerationPrompt,
    });
  } catch (error) {
    throw new UserError(`the chat template refused the messages: ${messageOf(error)}`, where);
  }
}

/** A private-use character that none of `texts` holds. */
function unusedMark(texts: string[]): string {
  for (let code = 0xf8ff; code >= 0xe000; code--) {
    const mark = String.fromCharCode(code);
    if (!texts.some((text) => text.includes(mark))) return mark;
  }
  throw new UserError('the messages use every private-use character', undefined, 'Clean the text.');
}

/** Puts `mark` after the first character of every control token spelled out in `text`, overlaps too. */
function breakControl(text: string, contents: string[], mark: string): string {
  let out = '';
  for (let i = 0; i < text.length; i++) {
    out += text[i];
    if (contents.some((content) => text.startsWith(content, i))) out += mark;
  }
  return out;
}

/**
 * The prompt's token ids: what encoding the whole rendered prompt gives, except that control tokens spelled
 * out in a message's content are text, for the tokenizer and for the template alike.
 *
 * A mark that occurs nowhere else breaks such spellings before the template sees them, and is taken out
 * again once the rendered prompt is cut at its control tokens. In an assistant's message only *special*
 * tokens are broken: templates read `<think>` there. That no message adds a special token of the template's
 * is checked against a rendering of opaque messages.
 */
export function renderPromptIds(
  template: ChatTemplate,
  tokenizer: TextTokenizer,
  messages: readonly Message[],
  options: RenderOptions,
): number[] {
  const mark = unusedMark([template.source, ...messages.map((message) => message.content)]);
  const special = tokenizer.controlTokens.filter((token) => token.special);
  const isSpecial = new Set<string | number>(special.map((token) => token.id));
  const masked = messages.map(({ role, content }) => {
    const tokens = role === 'assistant' ? special : tokenizer.controlTokens;
    return {
      role,
      content: breakControl(
        content,
        tokens.map((token) => token.content),
        mark,
      ),
    };
  });
  const parts = tokenizer.splitControl(render(template, masked, options));

  const opaque = messages.map(({ role, content }) => ({ role, content: content === '' ? '' : `x${mark}` }));
  const expected = tokenizer
    .splitControl(render(template, opaque, options))
    .filter((part) => isSpecial.has(part));
  if (parts.filter((part) => isSpecial.has(part)).join() !== expected.join()) {
    const what = 'the chat template sets other special tokens depending on what the messages say';
    throw new UserError(
      what,
      template.where,
      'Such a template cannot keep outside text apart: use another one.',
    );
  }
  return parts.flatMap((part) =>
    typeof part === 'number' ? [part] : tokenizer.encode(part.replaceAll(mark, '')),
  );
}
