import { CircleAlert, TriangleAlert } from "lucide-react";
import type { ReactNode } from "react";
import { ApiProblem } from "@/api/problem";
import { Button } from "./Button";

/** Nothing is there: why, and what to do about it. */
export function Empty({ title, compact, children }: { title: ReactNode; compact?: boolean; children?: ReactNode }) {
  return (
    <div className={compact ? "empty compact" : "empty"}>
      <strong>{title}</strong>
      {children && <div>{children}</div>}
    </div>
  );
}

/** What went wrong, where, and the trace to ask for it by. */
export function ProblemBox({ error, retry }: { error: unknown; retry?: () => void }) {
  if (!error) return null;
  const problem = error instanceof ApiProblem ? error : null;
  return (
    <div className="problem" role="alert">
      <CircleAlert size={16} aria-hidden />
      <div className="grow stack">
        <div>
          <strong>{problem?.document.title ?? "It did not work"}</strong>
          <div className="detail">{error instanceof Error ? error.message : String(error)}</div>
        </div>
        {problem?.document.errors?.length ? (
          <ul>
            {problem.document.errors.map((wrong) => (
              <li key={wrong.pointer + wrong.message} className="break">
                <code>{wrong.path || "document"}</code>: {wrong.message}
              </li>
            ))}
          </ul>
        ) : null}
        {problem?.document.trace_id && <div className="trace mono">trace {problem.document.trace_id}</div>}
        {retry && (
          <div>
            <Button small onClick={retry}>
              Try again
            </Button>
          </div>
        )}
      </div>
    </div>
  );
}

export function Warning({ children }: { children: ReactNode }) {
  return (
    <div className="notice warn">
      <TriangleAlert size={16} aria-hidden />
      <div className="grow break">{children}</div>
    </div>
  );
}

export function Skeleton({ height = 16, width = "100%" }: { height?: number; width?: number | string }) {
  return <div className="skeleton" style={{ height, width }} aria-hidden />;
}

type Read<D> = { data: D | undefined; error: unknown; isPending: boolean; refetch: () => unknown };

/** What was read, or that it is on its way, or why it is not there. Data that could not be read anew stays. */
export function Loaded<D>({ query, height = 120, children }: { query: Read<D>; height?: number; children: (data: D) => ReactNode }) {
  if (query.data !== undefined) return <>{children(query.data)}</>;
  if (query.error) return <ProblemBox error={query.error} retry={() => query.refetch()} />;
  return (
    <div role="status">
      <span className="sr">Loading</span>
      <Skeleton height={height} />
    </div>
  );
}
