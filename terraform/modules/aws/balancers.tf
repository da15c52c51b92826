# HTTPS for people, Terraform and clients of models; plain TCP, on which Medley encrypts by itself, for nodes.

resource "aws_lb" "https" {
  #checkov:skip=CKV2_AWS_28:Every request needs a token; a web application firewall is the platform's to add, by the output load_balancer_arn
  #checkov:skip=CKV2_AWS_20:There is no listener on port 80 at all
  name                       = "${var.name}-https"
  load_balancer_type         = "application"
  internal                   = !var.internet_facing
  subnets                    = var.load_balancer_subnet_ids
  security_groups            = [aws_security_group.this["balancer"].id]
  drop_invalid_header_fields = true
  enable_deletion_protection = var.deletion_protection
  # Longer than a gateway lets an answer take
  idle_timeout = 660
  tags         = local.tags

  access_logs {
    bucket  = var.access_log_bucket
    prefix  = "${var.name}-https"
    enabled = true
  }
}

resource "aws_lb_target_group" "serving" {
  #checkov:skip=CKV_AWS_378:TLS ends at the load balancer; behind it only that may connect, by security group
  for_each = { api = local.api_port, gateway = local.gateway_port }

  name                 = "${var.name}-${each.key}"
  port                 = each.value
  protocol             = "HTTP"
  target_type          = "ip"
  vpc_id               = var.vpc_id
  deregistration_delay = each.key == "gateway" ? 600 : 30
  tags                 = local.tags

  # Not /readyz: a task that waits for the database, or for a model to be served, is not mended by another one.
  health_check {
    path                = "/healthz"
    interval            = 10
    timeout             = 5
    healthy_threshold   = 2
    unhealthy_threshold = 3
    matcher             = "200"
  }
}

resource "aws_lb_listener" "https" {
  load_balancer_arn = aws_lb.https.arn
  port              = 443
  protocol          = "HTTPS"
  ssl_policy        = "ELBSecurityPolicy-TLS13-1-2-2021-06"
  certificate_arn   = var.certificate_arn
  tags              = local.tags

  default_action {
    type = "fixed-response"
    fixed_response {
      content_type = "text/plain"
      message_body = "no such host\n"
      status_code  = "404"
    }
  }
}

# They are open on purpose, for who watches from inside.
resource "aws_lb_listener_rule" "inside_only" {
  listener_arn = aws_lb_listener.https.arn
  priority     = 1
  tags         = local.tags

  action {
    type = "fixed-response"
    fixed_response {
      content_type = "text/plain"
      message_body = "not from outside\n"
      status_code  = "404"
    }
  }

  condition {
    path_pattern {
      values = ["/metrics", "/readyz"]
    }
  }
}

resource "aws_lb_listener_rule" "serving" {
  for_each = { api = var.api_hostname, gateway = var.gateway_hostname }

  listener_arn = aws_lb_listener.https.arn
  priority     = each.key == "api" ? 10 : 20
  tags         = local.tags

  action {
    type             = "forward"
    target_group_arn = aws_lb_target_group.serving[each.key].arn
  }

  condition {
    host_header {
      values = [each.value]
    }
  }
}

resource "aws_lb" "nodes" {
  name                             = "${var.name}-nodes"
  load_balancer_type               = "network"
  internal                         = !var.nodes_outside
  subnets                          = var.nodes_outside ? var.load_balancer_subnet_ids : var.private_subnet_ids
  security_groups                  = [aws_security_group.this["node_door"].id]
  enable_cross_zone_load_balancing = true
  enable_deletion_protection       = var.deletion_protection
  tags                             = local.tags

  access_logs {
    bucket  = var.access_log_bucket
    prefix  = "${var.name}-nodes"
    enabled = true
  }
}

# The one that leads is the one that listens.
resource "aws_lb_target_group" "nodes" {
  for_each = local.node_ports

  name                   = "${var.name}-${each.key}"
  port                   = each.value
  protocol               = "TCP"
  target_type            = "ip"
  vpc_id                 = var.vpc_id
  deregistration_delay   = 5
  connection_termination = true
  preserve_client_ip     = false
  tags                   = local.tags

  health_check {
    protocol            = "TCP"
    interval            = 10
    healthy_threshold   = 2
    unhealthy_threshold = 2
  }
}

resource "aws_lb_listener" "nodes" {
  #checkov:skip=CKV_AWS_2:The channel is ZeroMQ with CURVE: encrypted and authenticated end to end, in place of TLS
  #checkov:skip=CKV_AWS_103:See above: no TLS on it
  for_each = local.node_ports

  load_balancer_arn = aws_lb.nodes.arn
  port              = each.value
  protocol          = "TCP"
  tags              = local.tags

  default_action {
    type             = "forward"
    target_group_arn = aws_lb_target_group.nodes[each.key].arn
  }
}
