import { useRef, useState } from "react";
import { type ChatAsked, chat, type Message, type Route } from "@/api/chat";

export type Turn = {
  question: string;
  answer: string;
  reasoning: string;
  /** What is waited for, until something comes. */
  waits: string;
  /** Milliseconds from the question to the first of the answer, and to its end. */
  first_ms: number | null;
  whole_ms: number | null;
  route: Route | null;
  error: unknown;
};

type Options = Pick<ChatAsked, "model" | "key" | "max_tokens" | "temperature"> & { system: string };

/** A conversation: every turn with what it took. Nothing of it is stored. */
export function useChat() {
  const [turns, setTurns] = useState<Turn[]>([]);
  const [isBusy, setBusy] = useState(false);
  const stop = useRef<AbortController | null>(null);

  const ask = async (question: string, { system, ...options }: Options) => {
    const begun = performance.now();
    const place = turns.length;
    const control = new AbortController();
    stop.current = control;
    setBusy(true);
    setTurns([...turns, { question, answer: "", reasoning: "", waits: "", first_ms: null, whole_ms: null, route: null, error: null }]);
    const change = (made: (turn: Turn) => Partial<Turn>) => setTurns((all) => all.map((turn, n) => (n === place ? { ...turn, ...made(turn) } : turn)));
    const since = () => performance.now() - begun;
    try {
      for await (const part of chat({ ...options, messages: messagesOf(system, turns, question) }, control.signal)) {
        if ("route" in part) change(() => ({ route: part.route }));
        else if ("waits" in part) change(() => ({ waits: part.waits }));
        else if ("reasoning" in part) change((turn) => ({ reasoning: turn.reasoning + part.reasoning, waits: "", first_ms: turn.first_ms ?? since() }));
        else change((turn) => ({ answer: turn.answer + part.text, waits: "", first_ms: turn.first_ms ?? since() }));
      }
    } catch (error) {
      if (!control.signal.aborted) change(() => ({ error }));
    } finally {
      change(() => ({ whole_ms: since(), waits: "" }));
      setBusy(false);
    }
  };
  return { turns, isBusy, ask, stop: () => stop.current?.abort(), clear: () => setTurns([]) };
}

/** Turns that failed are left out: behind a question without an answer no other may stand. */
function messagesOf(system: string, turns: Turn[], question: string): Message[] {
  const said = turns.filter((turn) => turn.answer && !turn.error).flatMap((turn): Message[] => [
    { role: "user", content: turn.question },
    { role: "assistant", content: turn.answer },
  ]);
  return [...(system ? [{ role: "system", content: system } as Message] : []), ...said, { role: "user", content: question }];
}
