// An error inside one panel stays there: the others go on, and the panel says what happened and can be tried again.

import { Component, type ReactNode } from "react";
import { Panel } from "./panel.tsx";

interface GuardedProps {
  readonly id: string;
  readonly title: string;
  /** A failed panel is tried again when this changes: another session may well be shown. */
  readonly of?: string;
  readonly children: ReactNode;
}

interface GuardedState {
  readonly failure: string | undefined;
  readonly of: string | undefined;
}

export class Guarded extends Component<GuardedProps, GuardedState> {
  override state: GuardedState = { failure: undefined, of: this.props.of };

  static getDerivedStateFromError(thrown: unknown): Partial<GuardedState> {
    return { failure: thrown instanceof Error ? thrown.message : String(thrown) };
  }

  static getDerivedStateFromProps(props: GuardedProps, state: GuardedState): GuardedState | null {
    return props.of === state.of ? null : { failure: undefined, of: props.of };
  }

  override render(): ReactNode {
    const { id, title, children } = this.props;
    const { failure } = this.state;
    if (failure === undefined) return children;
    return (
      <Panel
        id={id}
        title={title}
        actions={
          <button type="button" onClick={() => this.setState({ failure: undefined })}>
            Try again
          </button>
        }
      >
        <p className="error" role="alert">
          This part of the page failed; the others go on. {failure}
        </p>
      </Panel>
    );
  }
}
