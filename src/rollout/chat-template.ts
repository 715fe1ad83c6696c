/**
 * A model's own chat template, rendered to token ids in which outside text stays text.
 *
 * Templates may trim contents, drop the thoughts of earlier turns, or render a conversation otherwise once it
 * has grown. None of that matters here: an agent call is a prompt rendered once and the ids that were sampled
 * after it; no prompt is ever rendered again with an answer in it, and no id is had from rendered text.
 */
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
  /** What every rendering sees: `bos_token`, `eos_token` and so on where the tokenizer has them, and `kwargs`. */
  variables: Record<string, unknown>;
  /** `own`: it shows system messages. `none`: it refuses or drops them; they go before the user's first words. */
  systemRole: 'own' | 'none';
  /** What it should write for `add_generation_prompt` and does not; null when all is well. */
  missingOpening: string | null;
}

/** Variables of a template's own, such as `{ enable_thinking: false }`. */
export type TemplateKwargs = Readonly<Record<string, unknown>>;

export interface RenderOptions {
  /** Ends the prompt with the opening of the assistant's turn. */
  addGenerationPrompt: boolean;
  /** More variables of the template; they go before those that it was loaded with. */
  kwargs?: TemplateKwargs;
}

/**
 * Templates of newer models put the day's date into the prompt, which would change under a run. They get this
 * one, the date that they fall back on where there is no clock.
 */
const DATE = { day: '26', month: 'July', monthNumber: '07', year: '2024' };

/** Python's strftime for that date; of the day only what such templates ask for. */
function fixedDate(format: string): string {
  const { day, month, monthNumber, year } = DATE;
  const parts: Record<string, string> = {
    d: day,
    b: month.slice(0, 3),
    B: month,
    m: monthNumber,
    Y: year,
    A: 'Friday',
    a: 'Fri',
    H: '00',
    M: '00',
    S: '00',
  };
  return format.replace(/%(\w)/g, (whole, letter: string) => parts[letter] ?? whole);
}

/**
 * The template of a model folder: `chat_template.jinja`, else `chat_template` of tokenizer_config.json (of
 * several, the one named `default`), with `kwargs` for every rendering. UserError when there is none, its Jinja
 * does not parse, it does not show what a user says, or it never reads one of `kwargs`: that would do nothing.
 */
export function loadChatTemplate(folder: string, kwargs: TemplateKwargs = {}): ChatTemplate {
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
  const words = new Set(source.match(/\w+/g));
  for (const name of Object.keys(kwargs))
    if (!words.has(name))
      throw new UserError(
        `the chat template never reads ${name}`,
        where,
        'Correct or remove it in model.chatTemplate: it would do nothing.',
      );
  const variables: Record<string, unknown> = { fixed_date: fixedDate };
  for (const name of ['bos_token', 'eos_token', 'unk_token', 'pad_token'] as const) {
    const text = tokenText(config[name]);
    if (text !== undefined) variables[name] = text;
  }
  Object.assign(variables, kwargs);
  let parsed: Template;
  try {
    // the line break after the block is not part of the text
    parsed = new Template(`{% set strftime_now = fixed_date %}\n${source}`);
  } catch (error) {
    throw new UserError(`the chat template does not parse: ${messageOf(error)}`, where);
  }
  return { where, source, template: parsed, variables, ...inspect(parsed, variables, where) };
}

const SYSTEM: Message = { role: 'system', content: 'a system probe' };
const USER: Message = { role: 'user', content: 'a user probe' };
const ANSWER: Message = { role: 'assistant', content: 'an answer probe' };

/** What a template makes of system messages and of `add_generation_prompt`, found by trying. */
function inspect(
  template: Template,
  variables: Record<string, unknown>,
  where: string,
): Pick<ChatTemplate, 'systemRole' | 'missingOpening'> {
  const given = { template, variables, where };
  const shows = (messages: Message[]): boolean => {
    const text = renderRaw(given, messages, { addGenerationPrompt: true });
    return messages.every(({ content }) => text.includes(content));
  };
  const systemRole = attempt(() => shows([SYSTEM, USER])) ? 'own' : 'none';
  // a template that takes no system message is told of its own error, should it take no user's either
  if (systemRole === 'none' && !shows([USER]))
    throw new UserError('the chat template does not show what a user says', where, 'Use another template.');
  const [opened, plain] = [true, false].map((addGenerationPrompt) =>
    renderRaw(given, [USER], { addGenerationPrompt }),
  );
  const whole = attempt(() => renderRaw(given, [USER, ANSWER], { addGenerationPrompt: false }));
  const opening = whole?.startsWith(plain!)
    ? whole.slice(plain!.length, whole.indexOf(ANSWER.content)).trim()
    : '';
  return { systemRole, missingOpening: opened === plain && opening !== '' ? opening : null };
}

/** The result, or undefined when the template raises an error. */
function attempt<T>(action: () => T): T | undefined {
  try {
    return action();
  } catch (error) {
    if (error instanceof UserError) return undefined;
    throw error;
  }
}

/** Renders the messages as they are. */
function renderRaw(
  { template, variables, where }: Pick<ChatTemplate, 'template' | 'variables' | 'where'>,
  messages: readonly Message[],
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

/** Without a system role of the template's, the system's words come first in the user's first message. */
function withoutSystem(messages: readonly Message[]): Message[] {
  const words = messages.filter(({ role }) => role === 'system').map(({ content }) => content);
  const others = messages.filter(({ role }) => role !== 'system');
  const first = others.findIndex(({ role }) => role === 'user');
  if (words.length === 0) return others;
  if (first < 0) return [{ role: 'user', content: words.join('\n\n') }, ...others];
  return others.map((message, i) =>
    i === first ? { ...message, content: [...words, message.content].join('\n\n') } : message,
  );
}

function render(template: ChatTemplate, messages: readonly Message[], options: RenderOptions): string {
  if (options.addGenerationPrompt && template.missingOpening !== null)
    throw new UserError(
      `the chat template ignores add_generation_prompt: nothing opens the assistant's turn`,
      template.where,
      `End it with {% if add_generation_prompt %}, ${JSON.stringify(template.missingOpening)} and {% endif %}.`,
    );
  const shown = template.systemRole === 'own' ? messages : withoutSystem(messages);
  return renderRaw(template, shown, options);
}

/**
 * The token that ends an assistant's turn: what the template writes after an assistant's words, else the first
 * of `eosIds`. UserError when the template ends turns with a special token that is not among `eosIds`: no
 * answer of the model would ever end.
 */
export function endOfTurn(
  template: ChatTemplate,
  tokenizer: TextTokenizer,
  eosIds: readonly number[],
): number {
  const text = attempt(() => render(template, [USER, ANSWER], { addGenerationPrompt: false })) ?? '';
  const after = text.slice(text.lastIndexOf(ANSWER.content) + ANSWER.content.length);
  const special = new Map(tokenizer.controlTokens.filter((t) => t.special).map((t) => [t.id, t.content]));
  const id = tokenizer
    .splitControl(after)
    .find((part): part is number => typeof part === 'number' && special.has(part));
  if (id === undefined) return eosIds[0]!;
  if (eosIds.includes(id)) return id;
  throw new UserError(
    `ends a turn with ${special.get(id)} (${id}), which is not an eos_token_id (${eosIds.join(', ')})`,
    template.where,
    'Set eos_token_id in generation_config.json to all tokens that end an answer.',
  );
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
  return tokenizer.encodeParts(
    parts.map((part) => (typeof part === 'number' ? part : part.replaceAll(mark, ''))),
  );
}
