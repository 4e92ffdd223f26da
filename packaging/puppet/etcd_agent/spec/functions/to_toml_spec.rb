# frozen_string_literal: true

require 'json'
require 'spec_helper'

CASES = JSON.parse(File.read(File.expand_path('../../../../configuration-management/toml-cases.json', __dir__)))

describe 'etcd_agent::to_toml' do
  CASES.fetch('rendered').each do |row|
    it(row.fetch('name')) { is_expected.to run.with_params(row.fetch('value')).and_return(row.fetch('toml')) }
  end

  CASES.fetch('refused').each do |row|
    it("refuses #{row.fetch('name')}") do
      is_expected.to run.with_params(row.fetch('value')).and_raise_error(Puppet::Error, row.fetch('error'))
    end
  end

  it('refuses undef') do
    is_expected.to run.with_params({ 'a' => { 'b' => :undef } })
                      .and_raise_error(Puppet::Error, 'a.b: null cannot be written as TOML')
  end

  it('refuses a key that is no string') do
    is_expected.to run.with_params({ 'a' => { 1 => 2 } })
                      .and_raise_error(Puppet::Error, 'a.1: the key is a value of type Integer, not a string: quote it')
  end

  it('refuses text that is not Unicode') do
    is_expected.to run.with_params({ 'a' => "\xff" })
                      .and_raise_error(Puppet::Error, 'a: the text is not valid Unicode')
  end

  it('refuses what is no hash') { is_expected.to run.with_params('text').and_raise_error(ArgumentError, /expects a Hash/) }
end
