# Who may open a connection to whom; all else is closed. Rules stand by themselves, so that two groups can name each other.

locals {
  groups = {
    balancer  = "HTTPS load balancer"
    api       = "Admin API"
    gateway   = "Gateways"
    node_door = "Load balancer that nodes report to"
    reconcile = "Reconciler"
    database  = "PostgreSQL"
    files     = "Shared files"
    nodes     = "Nodes on AWS"
  }

  # From whom, to whom, at which port
  inside = {
    balancer_api        = { from = "balancer", to = "api", port = local.api_port }
    balancer_gateway    = { from = "balancer", to = "gateway", port = local.gateway_port }
    api_gateway         = { from = "api", to = "gateway", port = local.gateway_port }
    api_database        = { from = "api", to = "database", port = 5432 }
    reconcile_database  = { from = "reconcile", to = "database", port = 5432 }
    api_files           = { from = "api", to = "files", port = 2049 }
    gateway_files       = { from = "gateway", to = "files", port = 2049 }
    reconcile_files     = { from = "reconcile", to = "files", port = 2049 }
    door_hub            = { from = "node_door", to = "reconcile", port = local.node_ports.hub }
    door_registry       = { from = "node_door", to = "reconcile", port = local.node_ports.registry }
    door_demand         = { from = "node_door", to = "reconcile", port = local.node_ports.demand }
    gateway_door_demand = { from = "gateway", to = "node_door", port = local.node_ports.demand }
  }

  node_doors = { for pair in setproduct(["hub", "registry"], var.node_cidrs) : "${pair[0]} ${pair[1]}" => pair }
}

resource "aws_security_group" "this" {
  #checkov:skip=CKV2_AWS_5:Each is attached, by its key in the map, to what it is named for
  for_each = local.groups

  # SkyPilot gives nodes the group of this very name.
  name        = "${var.name}-${each.key}"
  description = "${var.name}: ${each.value}"
  vpc_id      = var.vpc_id
  tags        = merge(local.tags, { Name = "${var.name}-${each.key}" })
}

resource "aws_vpc_security_group_egress_rule" "inside" {
  for_each = local.inside

  security_group_id            = aws_security_group.this[each.value.from].id
  referenced_security_group_id = aws_security_group.this[each.value.to].id
  description                  = "To ${local.groups[each.value.to]}"
  ip_protocol                  = "tcp"
  from_port                    = each.value.port
  to_port                      = each.value.port
}

resource "aws_vpc_security_group_ingress_rule" "inside" {
  for_each = local.inside

  security_group_id            = aws_security_group.this[each.value.to].id
  referenced_security_group_id = aws_security_group.this[each.value.from].id
  description                  = "From ${local.groups[each.value.from]}"
  ip_protocol                  = "tcp"
  from_port                    = each.value.port
  to_port                      = each.value.port
}

resource "aws_vpc_security_group_ingress_rule" "clients" {
  for_each = toset(var.client_cidrs)

  security_group_id = aws_security_group.this["balancer"].id
  description       = "Clients, over TLS"
  cidr_ipv4         = each.value
  ip_protocol       = "tcp"
  from_port         = 443
  to_port           = 443
}

resource "aws_vpc_security_group_ingress_rule" "nodes" {
  for_each = local.node_doors

  security_group_id = aws_security_group.this["node_door"].id
  description       = "Nodes, to the ${each.value[0]}"
  cidr_ipv4         = each.value[1]
  ip_protocol       = "tcp"
  from_port         = local.node_ports[each.value[0]]
  to_port           = local.node_ports[each.value[0]]
}

# Stages and schedulers listen on any port: activations and KV cache go from node to node, requests from gateways.
resource "aws_vpc_security_group_ingress_rule" "node" {
  #checkov:skip=CKV_AWS_24:From one security group, not from addresses
  #checkov:skip=CKV_AWS_25:From one security group, not from addresses
  #checkov:skip=CKV_AWS_260:From one security group, not from addresses
  for_each = {
    nodes     = { from = "nodes", ports = [0, 65535] }
    gateway   = { from = "gateway", ports = [1024, 65535] }
    reconcile = { from = "reconcile", ports = [22, 22] }
  }

  security_group_id            = aws_security_group.this["nodes"].id
  referenced_security_group_id = aws_security_group.this[each.value.from].id
  description                  = "From ${local.groups[each.value.from]}"
  ip_protocol                  = "tcp"
  from_port                    = each.value.ports[0]
  to_port                      = each.value.ports[1]
}

# Weights come from where a fleet's spec says, packages from mirrors, and other nodes may be anywhere.
resource "aws_vpc_security_group_egress_rule" "node" {
  security_group_id = aws_security_group.this["nodes"].id
  description       = "Weights, packages, other nodes"
  cidr_ipv4         = "0.0.0.0/0"
  ip_protocol       = "-1"
}

resource "aws_vpc_security_group_egress_rule" "requests" {
  for_each = toset(var.node_cidrs)

  security_group_id = aws_security_group.this["gateway"].id
  description       = "Requests to schedulers on nodes"
  cidr_ipv4         = each.value
  ip_protocol       = "tcp"
  from_port         = 1024
  to_port           = 65535
}

resource "aws_vpc_security_group_egress_rule" "ssh" {
  for_each = toset(var.node_cidrs)

  security_group_id = aws_security_group.this["reconcile"].id
  description       = "SkyPilot sets nodes up over SSH"
  cidr_ipv4         = each.value
  ip_protocol       = "tcp"
  from_port         = 22
  to_port           = 22
}

# The interfaces of clouds, the registry of images, logs and secrets have no fixed addresses.
resource "aws_vpc_security_group_egress_rule" "https" {
  for_each = toset(["api", "gateway", "reconcile"])

  security_group_id = aws_security_group.this[each.value].id
  description       = "Interfaces of clouds, images, secrets, logs"
  cidr_ipv4         = "0.0.0.0/0"
  ip_protocol       = "tcp"
  from_port         = 443
  to_port           = 443
}
