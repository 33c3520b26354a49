from __future__ import annotations

import pytest

from millstream.runtime.tasks import LEGAL, IllegalTransitionError, Task, TaskId, TaskState


def test_task_ids_print_and_sort_by_subtopology_then_partition() -> None:
    ids = [TaskId(1, 0), TaskId(0, 10), TaskId(0, 3)]
    assert [str(task) for task in sorted(ids)] == ["0_3", "0_10", "1_0"]


@pytest.mark.parametrize("before", TaskState)
@pytest.mark.parametrize("after", TaskState)
def test_only_legal_moves_are_made(before: TaskState, after: TaskState) -> None:
    task = Task(TaskId(0, 0), before)
    if after in LEGAL[before]:
        task.move(after)
        assert task.state is after
    else:
        with pytest.raises(IllegalTransitionError, match="0_0"):
            task.move(after)


def test_a_task_suspended_while_restoring_goes_on_restoring() -> None:
    task = Task(TaskId(0, 0), TaskState.RESTORING, restored=3, target=9)
    task.suspend()
    assert task.state is TaskState.SUSPENDED
    task.resume()
    assert task.state is TaskState.RESTORING
    task.restored = 9
    task.arrive()
    assert task.state is TaskState.RUNNING


def test_closing_twice_is_no_error_and_closed_is_final() -> None:
    task = Task(TaskId(0, 0))
    task.close()
    task.close()
    assert not LEGAL[task.state]
