import type { ButtonHTMLAttributes, ReactNode } from "react";
import { type Operation, useRefusal } from "@/api/session";
import { Tip } from "./Tip";

type ButtonProps = ButtonHTMLAttributes<HTMLButtonElement> & {
  tone?: "plain" | "primary" | "danger" | "ghost";
  small?: boolean;
  icon?: boolean;
  /** Why it does nothing now; the button stays reachable, so that everybody can learn it. */
  refusal?: string;
  children: ReactNode;
};

export function Button({ tone = "plain", small, icon, refusal = "", className = "", onClick, children, ...rest }: ButtonProps) {
  const looks = ["button", tone, small ? "small" : "", icon ? "icon" : "", className].filter(Boolean).join(" ");
  const button = (
    <button
      type="button"
      {...rest}
      className={looks}
      aria-disabled={refusal ? true : undefined}
      onClick={(event) => {
        if (refusal) event.preventDefault();
        else onClick?.(event);
      }}
    >
      {children}
    </button>
  );
  return refusal ? <Tip text={refusal}>{button}</Tip> : button;
}

/** Does what the API lets only some roles do. */
export function ActButton({ operation, refusal, ...rest }: ButtonProps & { operation: Operation }) {
  const role = useRefusal(operation);
  return <Button {...rest} refusal={role || refusal} />;
}
