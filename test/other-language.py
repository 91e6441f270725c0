"""A client that knows only proto/: lists networks and nodes, watches a session, meets an error; prints JSON."""

import json
import sys

import grpc
from dcnr.v1 import fleet_pb2, fleet_pb2_grpc, network_pb2, network_pb2_grpc, session_pb2, session_pb2_grpc

address, session, missing = sys.argv[1:]
with grpc.insecure_channel(address) as channel:
    networks = network_pb2_grpc.NetworkServiceStub(channel).ListNetworks(network_pb2.ListNetworksRequest())
    nodes = fleet_pb2_grpc.FleetServiceStub(channel).ListPNodes(fleet_pb2.ListPNodesRequest())
    sessions = session_pb2_grpc.SessionServiceStub(channel)
    *_, last = sessions.WatchSession(session_pb2.WatchSessionRequest(id=session), timeout=30)
    try:
        sessions.GetSession(session_pb2.GetSessionRequest(id=missing))
        refused = ""
    except grpc.RpcError as error:
        refused = error.code().name
    told = {
        "networks": [network.id for network in networks.networks],
        "nodes": [{"name": node.name, "status": node.status} for node in nodes.pnodes],
        "watched": last.session.status,
        "refused": refused,
    }
print(json.dumps(told))
