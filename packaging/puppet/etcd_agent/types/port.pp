# @summary A port with TLS: the agents' own (2378), that of etcd's clients (2379), or that of etcd's members (2380).
type Etcd_agent::Port = Enum['api', 'client', 'peer']
