package settings

// s3Fields are the keys of [store] that only kind = "s3" has.
var s3Fields = []Field{
	{
		Section: "store", Name: "bucket", Kind: Text, Min: 3, Max: 63, Of: StoreS3, check: checkBucket,
		Doc:  "The bucket. Required. It is never made by the node.",
		node: func(s *Settings) slot { return slot{text: &s.Store.S3.Bucket} },
	},
	{
		Section: "store", Name: "region", Kind: Text, Min: 1, Max: 63, Of: StoreS3, check: checkRegion,
		Doc:  "The bucket's region, for example `eu-central-1`. Required unless `endpoint` is set; then `us-east-1`, which most other servers take.",
		node: func(s *Settings) slot { return slot{text: &s.Store.S3.Region} },
	},
	{
		Section: "store", Name: "endpoint", Kind: Text, Min: 1, Max: 2048, Of: StoreS3, check: checkEndpoint,
		Doc:  "Where the server is, `https://host[:port]` or `http://host[:port]`. Not set: AWS, as the region says. Proxies that the environment names are not used; the authorities that `AWS_CA_BUNDLE` names are trusted.",
		node: func(s *Settings) slot { return slot{text: &s.Store.S3.Endpoint} },
	},
	{
		Section: "store", Name: "path_style", Kind: Flag, Default: "false", Of: StoreS3,
		Doc:  "Whether the bucket is the first part of the path (`https://host/bucket/key`) instead of the host's name (`https://bucket.host/key`). Most servers other than AWS need it.",
		node: func(s *Settings) slot { return slot{flag: &s.Store.S3.PathStyle} },
	},
	{
		Section: "store", Name: "access_key_id", Kind: Text, Min: 1, Max: 128, Of: StoreS3, check: checkWord,
		Doc: "Access key that is used for ever. Refused unless `allow_static_credentials` is true. Without it credentials come from, in this order: `AWS_ACCESS_KEY_ID` and its kin in the environment, " +
			"a web identity's token, the shared profile (`~/.aws`), the container's endpoint, the instance's role. They are fetched anew before they expire.",
		node: func(s *Settings) slot { return slot{text: &s.Store.S3.AccessKeyID} },
	},
	{
		Section: "store", Name: "secret_key_file", Kind: Text, Min: 1, Max: 4096, Of: StoreS3,
		Doc:  "File that holds the secret of `access_key_id`. Read once at start.",
		node: func(s *Settings) slot { return slot{text: &s.Store.S3.SecretKeyFile} },
	},
	{
		Section: "store", Name: "secret_key_env", Kind: Text, Min: 1, Max: 255, Of: StoreS3,
		Doc:  "Environment variable that holds the secret of `access_key_id`.",
		node: func(s *Settings) slot { return slot{text: &s.Store.S3.SecretKeyEnv} },
	},
	{
		Section: "store", Name: "allow_static_credentials", Kind: Flag, Default: "false", Of: StoreS3,
		Doc:  "Whether `access_key_id` may be used. A key that never expires is a risk that somebody has to have decided to take.",
		node: func(s *Settings) slot { return slot{flag: &s.Store.S3.AllowStatic} },
	},
	{
		Section: "store", Name: "profile", Kind: Text, Min: 1, Max: 255, Of: StoreS3,
		Doc:  "Profile of the shared files. Set here it goes before the environment. Not set: `AWS_PROFILE`, or `default`.",
		node: func(s *Settings) slot { return slot{text: &s.Store.S3.Profile} },
	},
	{
		Section: "store", Name: "server_side_encryption", Kind: Choice, Choices: []string{EncryptDefault, EncryptS3, EncryptKMS}, Of: StoreS3,
		Doc:  "How the store encrypts what it is given. Not set, or empty: as the bucket is set.",
		node: func(s *Settings) slot { return slot{text: &s.Store.S3.Encryption} },
	},
	{
		Section: "store", Name: "kms_key_id", Kind: Text, Min: 1, Max: 2048, Of: StoreS3, check: checkWord,
		Doc:  "Key for `server_side_encryption = \"aws:kms\"`: its id or ARN. Not set: the account's own for S3.",
		node: func(s *Settings) slot { return slot{text: &s.Store.S3.KMSKeyID} },
	},
	{
		Section: "store", Name: "expected_bucket_owner", Kind: Text, Min: 12, Max: 12, Of: StoreS3, check: checkAccount,
		Doc:  "Account that the bucket must belong to, 12 digits. Every request is refused if it is another's.",
		node: func(s *Settings) slot { return slot{text: &s.Store.S3.ExpectedOwner} },
	},
	{
		Section: "store", Name: "storage_class", Kind: Text, Min: 1, Max: 64, Of: StoreS3, check: checkStorageClass,
		Doc:  "Storage class of every object, for example `STANDARD_IA`. Not set: the bucket's. Classes from which an object must be restored before it is read are refused.",
		node: func(s *Settings) slot { return slot{text: &s.Store.S3.StorageClass} },
	},
	{
		Section: "store", Name: "upload_connections", Kind: Count, Min: 1, Max: 1000, Default: "20", Of: StoreS3,
		Doc:  "Connections for uploading fragments: at most so many at the same time.",
		node: func(s *Settings) slot { return slot{count: &s.Store.S3.UploadConnections} },
	},
	{
		Section: "store", Name: "general_connections", Kind: Count, Min: 2, Max: 10_000, Default: "200", Of: StoreS3,
		Doc:  "Connections for everything else: reads, manifests, listings, deletions.",
		node: func(s *Settings) slot { return slot{count: &s.Store.S3.GeneralConnections} },
	},
}
