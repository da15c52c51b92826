# Beside the loop, not instead of it: nodes find a service by the load balancer, and a scheduled task not. While somebody
# leads it ends at once. When nobody does, it leads for one round: machines that no row explains are ended, fleets that
# were told to end do, what a cloud took is replaced.

resource "aws_iam_role" "watch" {
  name               = "${var.name}-watch"
  assume_role_policy = data.aws_iam_policy_document.scheduler_assume.json
  tags               = local.tags
}

data "aws_iam_policy_document" "scheduler_assume" {
  statement {
    actions = ["sts:AssumeRole"]
    principals {
      type        = "Service"
      identifiers = ["scheduler.amazonaws.com"]
    }
    condition {
      test     = "StringEquals"
      variable = "aws:SourceAccount"
      values   = [local.account]
    }
  }
}

resource "aws_iam_role_policy" "watch" {
  name   = "run"
  role   = aws_iam_role.watch.id
  policy = data.aws_iam_policy_document.watch.json
}

data "aws_iam_policy_document" "watch" {
  statement {
    actions   = ["ecs:RunTask"]
    resources = [aws_ecs_task_definition.this["watch"].arn]
    condition {
      test     = "ArnEquals"
      variable = "ecs:cluster"
      values   = [aws_ecs_cluster.this.arn]
    }
  }

  statement {
    actions   = ["iam:PassRole"]
    resources = [aws_iam_role.task["reconcile"].arn, aws_iam_role.execution.arn]
    condition {
      test     = "StringEquals"
      variable = "iam:PassedToService"
      values   = ["ecs-tasks.amazonaws.com"]
    }
  }
}

resource "aws_scheduler_schedule" "watch" {
  name                = "${var.name}-watch"
  description         = "medley reconcile --once, for when nobody leads"
  schedule_expression = var.watch_schedule
  kms_key_arn         = aws_kms_key.this.arn

  flexible_time_window {
    mode = "OFF"
  }

  target {
    arn      = aws_ecs_cluster.this.arn
    role_arn = aws_iam_role.watch.arn

    ecs_parameters {
      task_definition_arn = aws_ecs_task_definition.this["watch"].arn
      launch_type         = "FARGATE"
      platform_version    = "LATEST"
      task_count          = 1

      network_configuration {
        subnets          = var.private_subnet_ids
        security_groups  = [aws_security_group.this["reconcile"].id]
        assign_public_ip = false
      }
    }

    # The next one comes soon enough.
    retry_policy {
      maximum_retry_attempts = 0
    }
  }
}
