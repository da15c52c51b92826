import { api, type Schemas, whole } from "./client";
import { ApiProblem } from "./problem";

export type Message = Schemas["ChatMessage"];
export type ChatAsked = Schemas["Chat"];
type Answering = { id: string; zone: string; leg: string; usd_per_hour: number };
/** The last event of a chat (`AnswerRoute` of the API, which a stream's schema cannot say). */
export type Route = { attempts: Answering[][]; prompt_tokens: number; output_tokens: number; usd: number };
export type Part = { text: string } | { reasoning: string } | { waits: string } | { route: Route };

/** Parts of an answer as they come. Throws ApiProblem where the gateway refuses or breaks off. */
export async function* chat(body: ChatAsked, signal: AbortSignal): AsyncGenerator<Part> {
  const { data } = await whole(api.POST("/api/v1/playground:chat", { body, parseAs: "stream", signal }));
  const stream = data as ReadableStream<Uint8Array> | null | undefined;
  if (!stream) return;
  for await (const event of eventsOf(stream)) {
    const part = partOf(event);
    if (part) yield part;
  }
}

/** Server-sent events, each as its lines. */
async function* eventsOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<string[]> {
  const reader = stream.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const events = (rest + value).split("\n\n");
      rest = events.pop() ?? "";
      for (const event of events) yield event.split("\n");
    }
  } finally {
    void reader.cancel().catch(() => undefined);
  }
}

type Delta = { content?: string | null; reasoning_content?: string | null; reasoning?: string | null };
type Chunk = { error?: { message?: string }; choices?: { delta?: Delta }[] };

function partOf(lines: string[]): Part | null {
  const data = lines.find((line) => line.startsWith("data: "))?.slice(6);
  if (lines[0]?.startsWith(":")) return { waits: lines[0].slice(1).trim() };
  if (!data || data === "[DONE]") return null;
  if (lines[0] === "event: route") return { route: JSON.parse(data) as Route };
  const chunk = JSON.parse(data) as Chunk;
  if (chunk.error) throw new ApiProblem(409, { title: "The answer broke off", detail: chunk.error.message ?? "" });
  const delta = chunk.choices?.[0]?.delta;
  const thought = delta?.reasoning_content ?? delta?.reasoning;
  if (thought) return { reasoning: thought };
  return delta?.content ? { text: delta.content } : null;
}
