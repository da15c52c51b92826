import { useQuery } from "@tanstack/react-query";
import { instanceHistory } from "@/api/queries";
import { StateBadge } from "@/components/Badge";
import { Loaded } from "@/components/feedback";
import { Time } from "@/components/figures";

/** Every step of its life with the reason, the newest first. */
export function InstanceHistory({ id }: { id: string }) {
  const past = useQuery(instanceHistory(id));
  return (
    <Loaded query={past}>
      {({ items }) => (
        <ol className="steps">
          {items.toReversed().map((step) => (
            <li key={step.sequence}>
              <div className="row spread">
                <StateBadge state={step.to_state} />
                <span className="muted">
                  <Time at={step.at} />
                </span>
              </div>
              <div className="break">{step.reason}</div>
            </li>
          ))}
        </ol>
      )}
    </Loaded>
  );
}
