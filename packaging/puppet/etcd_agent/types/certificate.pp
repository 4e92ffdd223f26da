# @summary The certificate chain of this node on a port, and the authorities that are trusted there, both PEM.
type Etcd_agent::Certificate = Struct[{
  'cert' => String[1],
  'ca'   => String[1],
}]
