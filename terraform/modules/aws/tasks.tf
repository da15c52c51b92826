# What runs: tasks of Fargate, without root, on a read-only file system.

locals {
  reconcile_arguments = [
    "reconcile", "--bind", "0.0.0.0", "--address", aws_lb.nodes.dns_name,
    "--hub-port", tostring(local.node_ports.hub),
    "--registry-port", tostring(local.node_ports.registry),
    "--demand-port", tostring(local.node_ports.demand),
  ]

  # The load balancer needs minutes to find a task with a new address.
  reach_s = "300"

  # Where SkyPilot launches nodes, and what reaches them there
  skypilot = yamlencode({ aws = {
    vpc_name         = data.aws_vpc.this.tags["Name"], security_group_name = aws_security_group.this["nodes"].name
    use_internal_ips = true, disk_encrypted = true, remote_identity = "NO_UPLOAD"
  } })

  scratch = { tmp = "/tmp", home = local.home }
  control = { control = "${local.home}/control", profiles = "${local.home}/profiles" }

  # Run before a task's process, and have to end well
  before = {
    ca       = { command = ["printf '%s' \"$DATABASE_CA\" > \"$MEDLEY_HOME/database-ca.pem\""], entryPoint = ["sh", "-ec"] }
    upgrade  = { command = ["db", "upgrade"], entryPoint = null }
    settings = { command = ["mkdir -p \"$HOME/.sky\" && printf '%s' \"$SKYPILOT_SETTINGS\" > \"$HOME/.sky/config.yaml\""], entryPoint = ["sh", "-ec"] }
  }

  # A task's own files are empty at its start; others are on the shared file system, read-only but for the reconciler.
  tasks = {
    api = {
      command = [
        "api", "--host", "0.0.0.0", "--port", tostring(local.api_port),
        "--proxies", join(",", [for subnet in data.aws_subnet.load_balancer : subnet.cidr_block]),
        "--gateway", "http://${aws_service_discovery_service.gateway.name}.${aws_service_discovery_private_dns_namespace.this.name}:${local.gateway_port}",
      ]
      role     = "api", size = var.sizes.api, ports = [local.api_port], database = true, before = ["upgrade"], clouds = true
      shared   = { profiles = { path = local.control.profiles, write = false } }
      stop_s   = 30
      override = null
    }
    gateway = {
      command  = ["gateway", "--host", "0.0.0.0", "--port", tostring(local.gateway_port)]
      role     = "gateway", size = var.sizes.gateway, ports = [local.gateway_port], database = false, before = [], clouds = false
      shared   = { control = { path = local.control.control, write = false } }
      stop_s   = 120
      override = null
    }
    reconcile = {
      command  = concat(local.reconcile_arguments, ["--reach-s", local.reach_s])
      role     = "reconcile", size = var.sizes.reconcile, ports = values(local.node_ports), database = true, before = ["upgrade", "settings"], clouds = true
      shared   = { for name, path in local.control : name => { path = path, write = true } }
      stop_s   = 120
      override = null
    }
    # It is not behind the load balancer, so it misses no node for its silence: it compares with the clouds' lists only.
    watch = {
      command  = concat(local.reconcile_arguments, ["--once", "--timeout-minutes", "10", "--reach-s", "3600"])
      role     = "reconcile", size = var.sizes.reconcile, ports = [], database = true, before = ["settings"], clouds = true
      shared   = { for name, path in local.control : name => { path = path, write = true } }
      stop_s   = 120
      override = null
    }
    # The token goes from one process to the other: to no log, argument or file.
    first-token = {
      command  = ["token=$(medley token create first --role admin); printf %s \"$token\" | aws secretsmanager put-secret-value --secret-id \"$SECRET\" --secret-string file:///dev/stdin --query VersionId"]
      role     = "first", size = { cpu = 512, memory_mib = 1024 }, ports = [], database = true, before = ["upgrade"], clouds = false
      shared   = {}
      stop_s   = 30
      override = ["sh", "-ec"]
    }
  }
}

locals {
  verified = var.database_ca != ""

  # The certificates are there before anybody connects.
  befores = { for name, task in local.tasks : name => concat(task.database && local.verified ? ["ca"] : [], task.before) }
}

resource "aws_ecs_cluster" "this" {
  name = var.name
  tags = local.tags

  setting {
    name  = "containerInsights"
    value = "enabled"
  }
}

resource "aws_cloudwatch_log_group" "this" {
  for_each = local.tasks

  name              = "/${var.name}/${each.key}"
  retention_in_days = var.log_retention_days
  kms_key_id        = aws_kms_key.this.arn
  tags              = local.tags
}

resource "aws_ecs_task_definition" "this" {
  for_each = local.tasks

  family                   = "${var.name}-${each.key}"
  requires_compatibilities = ["FARGATE"]
  network_mode             = "awsvpc"
  cpu                      = each.value.size.cpu
  memory                   = each.value.size.memory_mib
  execution_role_arn       = aws_iam_role.execution.arn
  task_role_arn            = aws_iam_role.task[each.value.role].arn
  tags                     = local.tags

  dynamic "volume" {
    for_each = local.scratch
    content {
      name = volume.key
    }
  }

  dynamic "volume" {
    for_each = each.value.shared
    content {
      name = volume.key
      efs_volume_configuration {
        file_system_id     = aws_efs_file_system.this.id
        transit_encryption = "ENABLED"
        authorization_config {
          access_point_id = aws_efs_access_point.this[volume.key].id
          iam             = "ENABLED"
        }
      }
    }
  }

  container_definitions = jsonencode([for container in concat(
    [for name in local.befores[each.key] : merge(local.before[name], {
      name = name, essential = false, ports = [], dependsOn = name == "upgrade" && local.verified ? [{ containerName = "ca", condition = "SUCCESS" }] : []
    })],
    [{
      name      = each.key, command = each.value.command, entryPoint = each.value.override, essential = true, ports = each.value.ports
      dependsOn = [for name in local.befores[each.key] : { containerName = name, condition = "SUCCESS" }]
    }]
    ) : merge({
      name                   = container.name
      image                  = var.image
      command                = container.command
      essential              = container.essential
      user                   = "${local.uid}:${local.uid}"
      readonlyRootFilesystem = true
      stopTimeout            = each.value.stop_s
      dependsOn              = container.dependsOn
      linuxParameters        = { initProcessEnabled = true, capabilities = { drop = ["ALL"] } }
      portMappings           = [for port in container.ports : { containerPort = port, protocol = "tcp" }]
      environment = concat(
        [{ name = "MEDLEY_HOME", value = local.home }, { name = "HOME", value = local.home }, { name = "AWS_DEFAULT_REGION", value = local.region }],
        container.name == "ca" ? [{ name = "DATABASE_CA", value = var.database_ca }] : [],
        each.value.role == "reconcile" ? [{ name = "SKYPILOT_SETTINGS", value = local.skypilot }] : [],
        each.value.role == "first" ? [{ name = "SECRET", value = aws_secretsmanager_secret.first_token.arn }] : [],
      )
      secrets = concat(
        each.value.database ? [{ name = "MEDLEY_DATABASE_URL", valueFrom = aws_secretsmanager_secret.database_url.arn }] : [],
        each.value.clouds && var.runpod_secret_arn != null ? [{ name = "RUNPOD_API_KEY", valueFrom = var.runpod_secret_arn }] : [],
      )
      mountPoints = concat(
        [for name, path in local.scratch : { sourceVolume = name, containerPath = path, readOnly = false }],
        [for name, mount in each.value.shared : { sourceVolume = name, containerPath = mount.path, readOnly = !mount.write }],
      )
      logConfiguration = {
        logDriver = "awslogs"
        options = {
          "awslogs-group"         = aws_cloudwatch_log_group.this[each.key].name
          "awslogs-region"        = local.region
          "awslogs-stream-prefix" = container.name
        }
      }
  }, container.entryPoint == null ? {} : { entryPoint = container.entryPoint })])
}

# One name for all gateways, by which the API asks each of them how fast it answers.
resource "aws_service_discovery_private_dns_namespace" "this" {
  name        = "${var.name}.internal"
  description = "${var.name}: gateways, for the API"
  vpc         = var.vpc_id
  tags        = local.tags
}

resource "aws_service_discovery_service" "gateway" {
  name          = "gateway"
  force_destroy = true
  tags          = local.tags

  dns_config {
    namespace_id   = aws_service_discovery_private_dns_namespace.this.id
    routing_policy = "MULTIVALUE"

    dns_records {
      type = "A"
      ttl  = 30
    }
  }
}

resource "aws_ecs_service" "serving" {
  for_each = { api = var.api_replicas, gateway = var.gateway_replicas }

  name                               = each.key
  cluster                            = aws_ecs_cluster.this.id
  task_definition                    = aws_ecs_task_definition.this[each.key].arn
  desired_count                      = each.value
  launch_type                        = "FARGATE"
  platform_version                   = "LATEST"
  deployment_minimum_healthy_percent = 100
  deployment_maximum_percent         = 200
  health_check_grace_period_seconds  = 180
  propagate_tags                     = "SERVICE"
  tags                               = local.tags

  # Gateways find their key on the shared files once the reconciler has started: until then they are tried again.
  deployment_circuit_breaker {
    enable   = each.key == "api"
    rollback = each.key == "api"
  }

  network_configuration {
    subnets          = var.private_subnet_ids
    security_groups  = [aws_security_group.this[each.key].id]
    assign_public_ip = false
  }

  load_balancer {
    target_group_arn = aws_lb_target_group.serving[each.key].arn
    container_name   = each.key
    container_port   = each.key == "api" ? local.api_port : local.gateway_port
  }

  dynamic "service_registries" {
    for_each = each.key == "gateway" ? [aws_service_discovery_service.gateway.arn] : []
    content {
      registry_arn = service_registries.value
    }
  }

  depends_on = [aws_lb_listener_rule.serving, aws_efs_mount_target.this, aws_secretsmanager_secret_version.database_url]
}

# One at a time: the old one ends before the new one starts, since both would use SkyPilot's state. Fleets serve on.
resource "aws_ecs_service" "reconcile" {
  name                               = "reconcile"
  cluster                            = aws_ecs_cluster.this.id
  task_definition                    = aws_ecs_task_definition.this["reconcile"].arn
  desired_count                      = 1
  launch_type                        = "FARGATE"
  platform_version                   = "LATEST"
  deployment_minimum_healthy_percent = 0
  deployment_maximum_percent         = 100
  health_check_grace_period_seconds  = 900
  propagate_tags                     = "SERVICE"
  tags                               = local.tags

  network_configuration {
    subnets          = var.private_subnet_ids
    security_groups  = [aws_security_group.this["reconcile"].id]
    assign_public_ip = false
  }

  dynamic "load_balancer" {
    for_each = local.node_ports
    content {
      target_group_arn = aws_lb_target_group.nodes[load_balancer.key].arn
      container_name   = "reconcile"
      container_port   = load_balancer.value
    }
  }

  depends_on = [aws_lb_listener.nodes, aws_efs_mount_target.this, aws_secretsmanager_secret_version.database_url]
}
