# frozen_string_literal: true

require 'spec_helper'

describe 'etcd_agent' do
  let(:facts) { { 'os' => { 'family' => 'Debian', 'name' => 'Debian' } } }
  let(:cluster) { { 'name' => 'prod', 'nodes' => { 'n1' => '10.0.0.1' } } }
  let(:config_file) { catalogue.resource('file', '/etc/etcd-agent/config.toml') }

  context 'with a configuration alone' do
    let(:params) { { 'config' => { 'cluster' => cluster, 'backup' => { 'retention' => { 'daily' => 7 } } } } }

    it { is_expected.to compile.with_all_deps }
    it { is_expected.to contain_package('etcd-agent').with_ensure('installed') }

    it 'renders it and lets the agent check it' do
      is_expected.to contain_file('/etc/etcd-agent/config.toml').with(
        'owner' => 'root', 'group' => 'etcd-agent', 'mode' => '0640',
        'validate_cmd' => '/usr/bin/etcd-agent config check %',
        'content' => <<~TOML,
          # Written by Puppet: changes by hand are lost.
          [backup.retention]
          daily = 7

          [cluster]
          name = "prod"

          [cluster.nodes]
          n1 = "10.0.0.1"
        TOML
      )
      is_expected.to contain_file('/etc/etcd-agent/config.toml').that_requires('Package[etcd-agent]')
      is_expected.to contain_file('/etc/etcd-agent/config.toml').that_comes_before('Service[etcd-agent]')
      is_expected.to contain_exec('etcd-agent reload').that_requires('Service[etcd-agent]').with(
        'command' => ['/usr/bin/etcd-agent', 'reload'],
        'unless' => [['/usr/bin/test', '!', '-x', '/usr/bin/etcd-agent'], ['/usr/bin/etcd-agent', 'config', 'is-loaded']]
      )
    end

    it 'discards an empty etcd before the agent reads the configuration, until the agent manages etcd' do
      is_expected.to contain_exec('etcd-agent discard-empty').with(
        'command' => ['/usr/bin/etcd-agent', 'discard-empty'],
        'creates' => '/etc/systemd/system/etcd.service.d/90-etcd-agent.conf',
        'onlyif' => '/usr/bin/systemctl is-active --quiet etcd' # the command knows the data directory
      )
      is_expected.to contain_exec('etcd-agent discard-empty').that_requires('File[/etc/etcd-agent/config.toml]')
      is_expected.to contain_exec('etcd-agent discard-empty').that_comes_before('Service[etcd-agent]')
    end

    it 'reloads the agent and never touches a running etcd' do
      is_expected.to contain_service('etcd-agent').with(
        'ensure' => 'running', 'enable' => true, 'restart' => '/usr/bin/etcd-agent reload'
      )
      is_expected.to contain_service('etcd').with('ensure' => nil, 'enable' => true)
    end

    it 'writes no other file' do
      files = catalogue.resources.select { |resource| resource.type == 'File' }.map(&:title)
      expect(files).to eq(['/etc/etcd-agent/config.toml'])
    end
  end

  context 'with TLS and credentials' do
    let(:params) do
      {
        'config' => { 'cluster' => cluster, 'etcd' => { 'data_dir' => '/srv/etcd', 'client_tls' => { 'ca_file' => '/a.crt' } },
                      'store' => { 'url' => 's3://backups/prod' } },
        'certificates' => { 'api' => { 'cert' => 'C1', 'ca' => 'A1' }, 'client' => { 'cert' => 'C2', 'ca' => 'A2' },
                            'peer' => { 'cert' => 'C3', 'ca' => 'A3' } },
        'keys' => sensitive({ 'api' => 'K1', 'client' => 'K2', 'peer' => 'K3' }),
        'store_credentials' => sensitive('S3'),
      }
    end

    it { is_expected.to compile.with_all_deps }

    it 'names the files in the configuration, and a path of the configuration wins' do
      expect(config_file[:content]).to include(<<~TOML)
        [etcd.client_tls]
        ca_file = "/a.crt"
        cert_file = "/etc/etcd/tls/node.crt"
        key_file = "/etc/etcd/tls/node.key"

        [etcd.peer_tls]
        ca_file = "/etc/etcd/peer-tls/ca.crt"
        cert_file = "/etc/etcd/peer-tls/node.crt"
        key_file = "/etc/etcd/peer-tls/node.key"

        [store]
        credentials_file = "/etc/etcd-agent/aws-credentials"
        url = "s3://backups/prod"
      TOML
      expect(config_file[:content]).to include("[api.tls]\nca_file = \"/etc/etcd-agent/tls/ca.crt\"\n")
    end

    { '/etc/etcd-agent/tls' => %w[etcd-agent 1], '/etc/etcd/tls' => %w[etcd 2], '/etc/etcd/peer-tls' => %w[etcd 3] }
      .each do |directory, (group, number)|
      it "writes #{directory}" do
        is_expected.to contain_file(directory).with('ensure' => 'directory', 'mode' => '0755')
                                              .that_requires('File[/etc/etcd-agent/config.toml]')
        is_expected.to contain_file("#{directory}/ca.crt").with('mode' => '0644', 'content' => "A#{number}")
        is_expected.to contain_file("#{directory}/node.crt").with('mode' => '0644', 'content' => "C#{number}")
        is_expected.to contain_file("#{directory}/node.key")
          .with('owner' => 'root', 'group' => group, 'mode' => '0640', 'content' => sensitive("K#{number}"))
          .that_notifies('Service[etcd-agent]')
      end
    end

    it 'writes the credentials' do
      is_expected.to contain_file('/etc/etcd-agent/aws-credentials')
        .with('owner' => 'root', 'group' => 'etcd-agent', 'mode' => '0640', 'content' => sensitive('S3'))
    end
  end

  context 'with a certificate without its key' do
    let(:params) { { 'config' => {}, 'certificates' => { 'api' => { 'cert' => 'C', 'ca' => 'A' } } } }

    it { is_expected.to compile.and_raise_error(/certificates has \[api\], and keys has \[\]/) }
  end

  context 'with the latest package of a file' do
    let(:params) { { 'config' => {}, 'package_source' => '/root/etcd-agent.deb', 'package_ensure' => 'latest' } }

    it { is_expected.to compile.and_raise_error(/name the version of package_source/) }
  end

  context 'with a package file on EL' do
    let(:facts) { { 'os' => { 'family' => 'RedHat', 'name' => 'RedHat', 'release' => { 'major' => '9' } } } }
    let(:params) { { 'config' => { 'cluster' => cluster }, 'package_source' => '/root/etcd-agent.rpm' } }

    it { is_expected.to compile.with_all_deps }
    it { is_expected.to contain_package('etcd-agent').with('ensure' => 'installed', 'source' => '/root/etcd-agent.rpm') }
    it { is_expected.to contain_service('etcd').with('ensure' => nil, 'enable' => true) }

    context 'of Debian' do
      let(:params) { super().merge('package_source' => '/root/etcd-agent.deb') }

      it { is_expected.to compile.and_raise_error(/is \/root\/etcd-agent.deb, and this host takes .* ends with .rpm/) }
    end
  end

  context 'on SUSE' do
    let(:facts) { { 'os' => { 'family' => 'Suse', 'name' => 'SLES', 'release' => { 'major' => '15' } } } }
    let(:params) { { 'config' => { 'cluster' => cluster } } }

    it { is_expected.to compile.with_all_deps }
    it { is_expected.to contain_package('etcd-agent').with('ensure' => 'installed', 'source' => nil) }

    context 'with a package file, which zypper would ignore' do
      let(:params) { super().merge('package_source' => '/root/etcd-agent.rpm') }

      it { is_expected.to compile.and_raise_error(/only on Debian, Fedora and EL: put it into a repository/) }
    end
  end

  context 'with a package file of EL on Debian' do
    let(:params) { { 'config' => {}, 'package_source' => '/root/etcd-agent.rpm' } }

    it { is_expected.to compile.and_raise_error(/this host takes a file that ends with .deb/) }
  end

  context 'with a single node that takes over its etcd' do
    let(:params) { { 'config' => {}, 'discard_empty' => false } }

    it { is_expected.not_to contain_exec('etcd-agent discard-empty') }
  end

  {
    'config' => ['text', /'config' expects a Hash/],
    'certificates' => [{ 'ftp' => { 'cert' => 'C', 'ca' => 'A' } }, /'certificates'.*expects a match for Etcd_agent::Port/],
    'keys' => [{ 'api' => 'K' }, /'keys' expects a Sensitive/],
    'store_credentials' => ['S', /'store_credentials' expects .*Sensitive/],
    'package_source' => ['etcd-agent.deb', /'package_source' expects/], # not an absolute path
  }.each do |name, (value, error)|
    context "with #{name} of a wrong type" do
      let(:params) { { 'config' => {} }.merge(name => value) }

      it { is_expected.to compile.and_raise_error(error) }
    end
  end

  context 'with a value that TOML does not have' do
    let(:params) { { 'config' => { 'cluster' => { 'size' => :undef } } } }

    it { is_expected.to compile.and_raise_error(/cluster.size: null cannot be written as TOML/) }
  end

  it 'has each parameter in REFERENCE.md' do
    reference = File.read(File.expand_path('../../REFERENCE.md', __dir__))
    manifest = File.read(File.expand_path('../../manifests/init.pp', __dir__))
    parameters = manifest.scan(/^  (\S.*) \$(\w+)(?: = (.*))?,$/)
    expect(parameters.length).to eq(7)
    parameters.each do |type, name, default|
      text = reference[/^### `#{name}`\n\n(.*?)(?=\n\n)/m, 1].to_s.tr("\n", ' ')
      shown = default ? "`#{type}`, default `#{default}`." : "`#{type}`, required."
      expect(text).to start_with(shown), "#{name}: #{shown}"
    end
  end
end
