import { Link } from "react-router";
import type { useOperation } from "@/api/operation";
import { ApiProblem } from "@/api/problem";
import { ActButton, Button } from "./Button";
import { ProblemBox } from "./feedback";

type OperationStateProps = {
  work: Pick<ReturnType<typeof useOperation>, "operation" | "isBusy" | "error" | "cancel" | "clear">;
  done?: { text: string; to: string; link: string };
};

/** How far long work is, why it failed, or where its result is. */
export function OperationState({ work, done }: OperationStateProps) {
  const { operation } = work;
  if (work.error) return <ProblemBox error={work.error} />;
  if (operation?.state === "failed" && operation.problem) {
    const { name, detail, errors, facts } = operation.problem;
    const document = { title: name.replaceAll("-", " "), detail, errors, facts };
    return <ProblemBox error={new ApiProblem(422, document)} retry={work.clear} />;
  }
  if (work.isBusy) {
    return (
      <div className="notice" role="status">
        <span className="grow">
          {operation?.state === "running" ? operation.progress || "Working…" : "Waiting for a worker of the API…"}
        </span>
        <ActButton operation="cancel_operation" small onClick={() => void work.cancel()}>
          Stop
        </ActButton>
      </div>
    );
  }
  if (!done) return null;
  return (
    <div className="notice" role="status">
      <span className="grow">{done.text}</span>
      <Link to={done.to}>{done.link}</Link>
      <Button small tone="ghost" onClick={work.clear}>
        Dismiss
      </Button>
    </div>
  );
}
