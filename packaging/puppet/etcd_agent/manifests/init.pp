# @summary Installs and configures etcd-agent, the node agent for etcd on systemd hosts.
#
# The class writes the paths of the TLS files and of the credentials into the configuration. A path in `config` wins
# over these.
#
# @example A node of a cluster of three
#   class { 'etcd_agent':
#     config => {
#       'cluster' => { 'name' => 'prod', 'nodes' => { 'n1' => '10.0.0.1', 'n2' => '10.0.0.2', 'n3' => '10.0.0.3' } },
#       'store'   => { 'url' => 's3://backups/prod', 'region' => 'us-east-1' },
#     },
#   }
#
# @param config
#   The configuration as etcd-agent.toml(5) describes it, with tables as hashes. `etcd-agent config check` checks keys
#   and values before the file is replaced.
# @param certificates
#   The certificates of this node, by port. A port without its entry has no TLS.
# @param keys
#   The private key for each of `certificates`, PEM.
# @param store_credentials
#   The text of a shared credentials file of the AWS tools. Without it the SDK's default chain finds credentials.
# @param discard_empty
#   Discard the empty etcd that the distribution's package has started. An etcd that is in use is refused. Set this to
#   false for a single node that takes over its etcd.
# @param package_ensure
#   `installed`, `latest` or a version. An upgrade restarts the agent and never etcd.
# @param package_source
#   A package file on the host, in place of the APT sources or repositories: a .deb on Debian, an .rpm on Fedora and EL.
#   SUSE needs a repository. An upgrade needs its version in `package_ensure`.
class etcd_agent (
  Hash[String[1], Data] $config,
  Hash[Etcd_agent::Port, Etcd_agent::Certificate] $certificates = {},
  Sensitive[Hash[Etcd_agent::Port, String[1]]] $keys = Sensitive({}),
  Optional[Sensitive[String[1]]] $store_credentials = undef,
  Boolean $discard_empty = true,
  String[1] $package_ensure = 'installed',
  Optional[Pattern[/\A\/.+\.(deb|rpm)\z/]] $package_source = undef,
) {
  if $certificates.keys.sort != $keys.unwrap.keys.sort {
    $both = "certificates has ${certificates.keys.sort}, and keys has ${keys.unwrap.keys.sort}"
    fail("etcd_agent: ${both}: each port needs both")
  }

  if $package_source {
    $found = "etcd_agent: package_source is ${package_source}"
    # The default providers apt and dnf take a file. That of zypper ignores it.
    case $facts['os']['family'] {
      'Debian': { $suffix = '.deb' }
      'RedHat': { $suffix = '.rpm' }
      default: { fail("${found}, and Puppet installs files only on Debian, Fedora and EL: put it into a repository") }
    }
    if $package_source[-4, 4] != $suffix {
      fail("${found}, and this host takes a file that ends with ${suffix}: name the package of its distribution")
    }
    if $package_ensure == 'latest' {
      fail('etcd_agent: package_ensure is latest, which only a repository knows: name the version of package_source')
    }
  }

  # Where the files for each port are, who may read the key, and the table of the configuration that names them.
  $ports = {
    'api'    => { 'directory' => '/etc/etcd-agent/tls', 'group' => 'etcd-agent', 'table' => ['api', 'tls'] },
    'client' => { 'directory' => '/etc/etcd/tls', 'group' => 'etcd', 'table' => ['etcd', 'client_tls'] },
    'peer'   => { 'directory' => '/etc/etcd/peer-tls', 'group' => 'etcd', 'table' => ['etcd', 'peer_tls'] },
  }
  $credentials_file = '/etc/etcd-agent/aws-credentials'

  $store_table = $store_credentials ? {
    undef   => {},
    default => { 'store' => { 'credentials_file' => $credentials_file } },
  }
  $file_tables = $certificates.keys.reduce($store_table) |$tables, $port| {
    $directory = $ports[$port]['directory']
    [$outer, $inner] = $ports[$port]['table']
    $files = {
      'cert_file' => "${directory}/node.crt",
      'key_file'  => "${directory}/node.key",
      'ca_file'   => "${directory}/ca.crt",
    }
    etcd_agent::merge($tables, { $outer => { $inner => $files } })
  }
  $toml = etcd_agent::to_toml(etcd_agent::merge($file_tables, $config))

  package { 'etcd-agent':
    ensure => $package_ensure,
    source => $package_source,
  }

  # First of all files: if the agent refuses it, nothing else is written.
  file { '/etc/etcd-agent/config.toml':
    ensure       => file,
    owner        => 'root',
    group        => 'etcd-agent',
    mode         => '0640',
    content      => "# Written by Puppet: changes by hand are lost.\n${toml}",
    validate_cmd => '/usr/bin/etcd-agent config check %',
    require      => Package['etcd-agent'],
    before       => Service['etcd-agent'],
  }

  $directories = $certificates.keys.map |$port| { $ports[$port]['directory'] }
  $parents = $directories.filter |$directory| { $directory =~ /\A\/etc\/etcd\// }
  file { unique($directories + ($parents.empty ? { true => [], default => ['/etc/etcd'] })):
    ensure  => directory,
    owner   => 'root',
    group   => 'root',
    mode    => '0755',
    require => File['/etc/etcd-agent/config.toml'],
  }

  $certificates.each |$port, $certificate| {
    $directory = $ports[$port]['directory']
    file {
      default:
        ensure => file,
        owner  => 'root',
        notify => Service['etcd-agent'],
        ;
      "${directory}/ca.crt":
        group   => 'root',
        mode    => '0644',
        content => $certificate['ca'],
        ;
      "${directory}/node.crt":
        group   => 'root',
        mode    => '0644',
        content => $certificate['cert'],
        ;
      "${directory}/node.key":
        group   => $ports[$port]['group'],
        mode    => '0640',
        content => Sensitive($keys.unwrap[$port]),
        ;
    }
  }

  if $store_credentials {
    file { $credentials_file:
      ensure  => file,
      owner   => 'root',
      group   => 'etcd-agent',
      mode    => '0640',
      content => $store_credentials,
      require => File['/etc/etcd-agent/config.toml'],
      before  => Service['etcd-agent'],
    }
  }

  if $discard_empty {
    # Only an etcd that runs can be discarded, and not the agent's, whose drop-in exists. The command itself finds the
    # data directory, which differs between distributions.
    exec { 'etcd-agent discard-empty':
      command => ['/usr/bin/etcd-agent', 'discard-empty'],
      creates => '/etc/systemd/system/etcd.service.d/90-etcd-agent.conf',
      onlyif  => '/usr/bin/systemctl is-active --quiet etcd',
      timeout => 180,
      require => File['/etc/etcd-agent/config.toml'],
      before  => Service['etcd-agent'],
    }
  }

  # Not systemctl: it does not say why a reload was refused.
  service { 'etcd-agent':
    ensure  => running,
    enable  => true,
    restart => '/usr/bin/etcd-agent reload',
  }

  # By what is in force, not by what this run has changed: after a run that failed, the next one still reloads. After
  # a change of TLS files the service is refreshed, so that the agent refuses a bad pair at once.
  exec { 'etcd-agent reload':
    command => ['/usr/bin/etcd-agent', 'reload'],
    unless  => [
      # With --noop on a new host there is no agent.
      ['/usr/bin/test', '!', '-x', '/usr/bin/etcd-agent'],
      ['/usr/bin/etcd-agent', 'config', 'is-loaded'],
    ],
    require => Service['etcd-agent'],
  }

  # systemd starts etcd at the next boot. The agent decides when it starts for the first time.
  service { 'etcd':
    enable  => true,
    require => Service['etcd-agent'],
  }
}
